-- Tables in memory: filled, indexed, updated, joined, sorted and searched; all data is generated.
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, weight INTEGER, note TEXT);
CREATE TABLE link(source INTEGER, target INTEGER, kind TEXT);

WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < 80000)
INSERT INTO item
SELECT i, printf('item-%06d', i * 7919 % 80000), i * 104729 % 1009,
       substr('the quick brown fox jumps over the lazy dog', 1 + i % 20, i % 23)
FROM number;

WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < 120000)
INSERT INTO link
SELECT 1 + i * 31 % 80000, 1 + i * 37 % 80000,
       CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'bb' ELSE 'ccc' END
FROM number;

CREATE INDEX item_name ON item(name);
CREATE INDEX link_source ON link(source);
UPDATE item SET note = note || ' ' || name WHERE weight % 5 = 0;
DELETE FROM item WHERE weight % 17 = 0;

SELECT kind, count(*), sum(item.weight) FROM link JOIN item ON item.id = link.source GROUP BY kind;
SELECT count(*) FROM (SELECT a.id FROM item a JOIN link l ON l.source = a.id
                      JOIN item b ON b.id = l.target ORDER BY b.note, a.name);
SELECT count(DISTINCT note), max(length(note)), group_concat(DISTINCT weight % 7) FROM item;
SELECT name FROM item WHERE name LIKE '%99%' ORDER BY note DESC, name LIMIT 3;
