"""Real programs and the work that they do in test_programs.py.

A Program's work is deterministic: equal input gives equal output. `prepare` writes what it needs
into a fresh directory; `command` runs there. What it prints and every file that it leaves behind
are compared byte by byte between runs, except files whose names begin with one of `ignored`."""

import dataclasses
import pathlib
from collections.abc import Callable


def nothing(_: pathlib.Path) -> None:
    pass


@dataclasses.dataclass
class Program:
    name: str
    command: list[str]
    needs: tuple[str, ...]
    prepare: Callable[[pathlib.Path], None] = nothing
    counted: str = ""  # the program whose calls must reach the minimum; any by default
    minimum_calls: int = 10_000
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # files that must exist, else the test is skipped


def words(count: int) -> str:
    """Text that compresses, sorts and parses like text, always the same."""
    state = 1
    lines = []
    for number in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        lines.append(f"{state >> 40:07d} word{state >> 52} line {number} {state % 97}")
    return "\n".join(lines) + "\n"


def write_text(count: int) -> Callable[[pathlib.Path], None]:
    def prepare(directory: pathlib.Path) -> None:
        (directory / "text").write_text(words(count))

    return prepare


def write_files(**files: str) -> Callable[[pathlib.Path], None]:
    def prepare(directory: pathlib.Path) -> None:
        for name, content in files.items():
            (directory / name.replace("__", ".")).write_text(content)

    return prepare


BASH_SCRIPT = r"""
declare -A count
for i in {1..3000}; do
    word="w$((i * 7919 % 251))"
    count[$word]=$((${count[$word]:-0} + 1))
    text+="$word ${#text} "
done
for word in "${!count[@]}"; do printf '%s %d\n' "$word" "${count[$word]}"; done | sort
sum=0; while read -r a b _; do sum=$((sum + b)); done <<<"$text"; echo "${#text} $sum"
printf '%s\n' "${text//w1/W}" | md5sum; (cd / && echo "$PWD"); echo "$(echo nested $(echo deeper))"
"""

PYTHON_SCRIPT = """
import collections, hashlib, json, re, sqlite3, threading, zlib
data = [{'id': i, 'name': f'name {i}', 'tags': [str(i % 7), 'x' * (i % 50)]} for i in range(20000)]
text = json.dumps(data)
assert json.loads(text) == data
print(hashlib.sha256(text.encode()).hexdigest(), len(zlib.compress(text.encode())))
print(collections.Counter(re.findall('[0-9]+', text)).most_common(5))
base = sqlite3.connect(':memory:')
base.execute('create table t(a integer, b text)')
base.executemany('insert into t values(?, ?)', ((i, str(i) * 3) for i in range(20000)))
print(base.execute('select sum(a), max(length(b)), count(distinct b) from t').fetchone())
results = {}
def work(number):
    results[number] = sum(len(str(i) * number) for i in range(20000))
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(results.items()))
"""

PERL_SCRIPT = r"""
use strict; use warnings;
open my $in, '<', 'text' or die; my %count; my @lines;
while (my $line = <$in>) { push @lines, $line; $count{$_}++ for $line =~ /(\w+)/g; }
print "$_ $count{$_}\n" for (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0..20];
my @sorted = sort { (split ' ', $a)[1] cmp (split ' ', $b)[1] || $a cmp $b } @lines;
my $text = join '', map { scalar reverse } @sorted; $text =~ s/(\d+) enil/<$1>/g;
my %tree; for my $n (1..20000) { $tree{$n % 100}{$n % 7}[$n % 13] .= $n }
print length($text), ' ', unpack('%32C*', $text), ' ', scalar keys %tree, "\n";
"""

GIT_SCRIPT = r"""
set -e
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C
export GIT_COMMITTER_EMAIL=c@example.org
git init -q -b main repository; cd repository
git config core.fsync none; git config pack.threads 2; git config gc.auto 0
for i in $(seq 12); do
    export GIT_AUTHOR_DATE="2020-01-$i 12:00:00 +0000"
    export GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
    for j in $(seq 25); do seq $((i * j)) $((i * j + 300)) >"file.$j"; done
    git add . && git commit -q -m "change $i"
done
git log --stat --format='%H %s' | tail -40; git diff HEAD~5 --stat; git blame file.3 | md5sum
git checkout -q -b other HEAD~6; echo more >new; git add new; git commit -q -m other
git checkout -q main; git merge -q -m merge other; git gc -q --aggressive; git fsck --full
git rev-parse HEAD; git count-objects | cut -d' ' -f1
"""

C_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define F(n) static int f##n(int x) { int s = 0; for (int i = 0; i < x; i++) \
    { s += (i * n) ^ (s >> 3); if (s & 1) s += n * 3; } return s; }
#define T(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7)
T(1) T(2) T(3) T(4) T(5) T(6)
int main(void) { printf("%d %d %d\\n", f10(1000) + f21(7), f33(12) + f47(99), f52(3) + f66(81)); }
"""

CXX_SOURCE = """
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>
int main() {
    std::map<std::string, std::vector<int>> words;
    std::unordered_map<int, std::unique_ptr<std::string>> owned;
    for (int i = 0; i < 20000; i++) {
        words["key " + std::to_string(i % 500)].push_back(i);
        owned[i] = std::make_unique<std::string>(static_cast<size_t>(i % 100), 'x');
    }
    size_t total = 0;
    for (auto &[key, value] : words) { std::sort(value.rbegin(), value.rend()); total += value[0]; }
    for (auto &[key, value] : owned) total += value->size();
    std::cout << total << '\\n';
}
"""

SQL = """
create table item(id integer primary key, name text, price real, tag text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000)
insert into item select i, 'name ' || i, i * 1.25, 'tag' || (i % 97) from n;
create index by_tag on item(tag, price);
select tag, count(*), sum(price), group_concat(id) from item where id % 50 = 0 group by tag limit 5;
update item set name = name || ' changed' where tag = 'tag5'; delete from item where id % 3 = 0;
select count(*), max(length(name)), avg(price) from item;
select json_group_array(json_object('id', id)) from (select id from item limit 20);
vacuum; pragma integrity_check;
"""

RUBY_SCRIPT = """
words = File.readlines('text').flat_map(&:split)
count = words.tally.sort_by { |word, n| [-n, word] }.first(10)
p count, words.map(&:reverse).uniq.size, words.join.hash.class
tree = Hash.new { |hash, key| hash[key] = [] }
50_000.times { |i| tree["key #{i % 1000}"] << i.to_s * 3 }
GC.start
threads = 4.times.map { |t| Thread.new { (1..5000).map { |i| (i * t).to_s }.join.size } }
p tree.size, tree.values.map(&:size).sum, threads.map(&:value)
"""

NODE_SCRIPT = """
const crypto = require('crypto'), zlib = require('zlib');
const rows = [];
for (let i = 0; i < 30000; i++) {
    rows.push({ id: i, name: 'n' + i % 77, text: 'x'.repeat(i % 60) });
}
const text = JSON.stringify(rows); const groups = new Map();
for (const row of JSON.parse(text)) groups.set(row.name, (groups.get(row.name) || 0) + row.id);
console.log(text.length, groups.size, groups.get('n5'));
for (let i = 0; i < 20; i++) {
    const packed = zlib.deflateSync(Buffer.from(text.slice(i * 1000)));
    console.log(crypto.createHash('sha256').update(zlib.inflateSync(packed)).digest('hex'));
}
const { Worker, isMainThread } = require('worker_threads');
const work = "const { parentPort } = require('worker_threads');" +
    "parentPort.postMessage([...Array(9999).keys()].join().length)";
const worker = new Worker(work, { eval: true });
worker.on('message', (m) => console.log('worker', m));
"""

LUA_SCRIPT = """
local t, count = {}, {}
for i = 1, 60000 do t[i] = string.format('%05d', i * 7919 % 60000) .. string.rep('x', i % 30) end
table.sort(t)
for _, s in ipairs(t) do local k = s:sub(1, 2); count[k] = (count[k] or 0) + #s end
local keys = {}; for k in pairs(count) do keys[#keys + 1] = k end; table.sort(keys)
for _, k in ipairs(keys) do io.write(k, ' ', count[k], '\\n') end
local f = coroutine.wrap(function() for i = 1, 1000 do coroutine.yield({ i, tostring(i) }) end end)
local n = 0; for _ = 1, 1000 do n = n + #f()[2] end; collectgarbage(); print(n, #table.concat(t))
"""

PHP_SCRIPT = """<?php
$rows = [];
for ($i = 0; $i < 30000; $i++) $rows["k" . ($i % 999)][] = str_repeat("v", $i % 40) . $i;
ksort($rows); echo md5(serialize($rows)), ' ', count($rows), "\\n";
$packed = gzcompress(json_encode($rows));
echo strlen(json_encode($rows)), ' ', gzuncompress($packed) === json_encode($rows), "\\n";
echo count(array_intersect(get_loaded_extensions(), ['iconv', 'readline', 'tokenizer'])), "\\n";
echo md5(iconv('UTF-8', 'UTF-16LE', json_encode($rows))), "\\n";
echo count(token_get_all('<?php $rows = [1, 2];')), "\\n";
preg_match_all('/v+(\\\\d+)/', implode(' ', $rows['k5']), $found); echo count($found[1]), "\\n";
"""

VIM_SCRIPT = r"""
edit text
%s/word\(\d\+\)/\=submatch(1) * 2/g
%sort n
g/ 13$/move 0
normal! ggVG=
for i in range(200) | call append(0, repeat('x', i)) | endfor
1,50join
write! result
qall!
"""

JAVA_SOURCE = """
import java.util.*;
import java.util.stream.*;
public class Main {
    public static void main(String[] arguments) throws Exception {
        Map<String, Long> count = IntStream.range(0, 200000).mapToObj(i -> "w" + i * 7919L % 1009)
            .collect(Collectors.groupingBy(s -> s, TreeMap::new, Collectors.counting()));
        System.out.println(count.size() + " " + count.get("w7"));
        java.util.zip.Deflater deflater = new java.util.zip.Deflater();
        deflater.setInput(count.toString().getBytes()); deflater.finish();
        System.out.println(deflater.deflate(new byte[100000]));
        deflater.end();
    }
}
"""

TAR_SCRIPT = r"""
set -e
mkdir -p tree/{a,b,c}; for d in a b c; do for i in $(seq 40); do cp text tree/$d/$i; done; done
tar --sort=name --mtime=@0 --owner=0 --group=0 -cf tree.tar tree
xz -T2 -1 -k --block-size=1MiB tree.tar; zstd -q -T2 -3 -k tree.tar; gzip -1nk tree.tar
for f in tree.tar.xz tree.tar.zst tree.tar.gz; do md5sum <$f; tar -tf $f | md5sum; done
mkdir out; tar -xf tree.tar.zst -C out; diff -r tree out/tree && echo same
"""

SORT_SCRIPT = r"""
for i in 1 2 3 4 5 6; do cat text; done >big
sort --parallel=4 -S 8M -k2,2 -k1,1n big | md5sum
sort -u -R --random-source=text big | sort | md5sum
awk '{ n[$2] += $1; s = s $4 } END { for (w in n) print w, n[w]; print length(s) }' text |
    sort | tail -5
sed -E 's/([0-9]+) (word[0-9]+)/\2 \1/; s/line/LINE/g' text | md5sum
grep -cE 'word(1|2)[0-9]+ ' text
find / -maxdepth 3 -path '/usr/share/*' -name 'a*' 2>/dev/null | sort | md5sum
"""

MAKEFILE = "all: $(foreach i,$(shell seq 150),out.$(i))\n\t@cat $^ | md5sum\n" + \
    "out.%: text\n\t@head -n $* $< | tail -n 3 >$@\n"

OPENSSL_SCRIPT = r"""
set -e
printf '%0100d' 7 >key; for c in aes-256-cbc chacha20; do
    openssl enc -$c -pbkdf2 -iter 1000 -S 0102030405060708 -pass file:key -in text | md5sum; done
openssl dgst -sha256 text; openssl dgst -sha3-512 text; openssl prime -generate -bits 64 | wc -l
openssl genrsa -out rsa.pem 2048 2>/dev/null
openssl req -new -x509 -key rsa.pem -out cert.pem -subj /CN=t
openssl dgst -sha256 -sign rsa.pem -out signature text
openssl rsa -in rsa.pem -pubout -out pub.pem 2>&1
openssl dgst -sha256 -verify pub.pem -signature signature text
openssl ciphers -v ALL | wc -l; openssl list -digest-commands | md5sum; rm -f *.pem signature
"""

PYTHON_SUITES = ["test_dict", "test_list", "test_bytes", "test_json", "test_re", "test_zlib",
                 "test_threading_local", "test_struct", "test_heapq"]

PROGRAMS = [
    Program("bash", ["bash", "-c", BASH_SCRIPT], ("bash",), counted="bash"),
    Program("python3", ["/usr/bin/python3", "-c", PYTHON_SCRIPT], ("python3",),
            environment={"PYTHONMALLOC": "malloc"}, counted="python3"),
    Program("python3 with its own heap", ["/usr/bin/python3", "-c", PYTHON_SCRIPT], ("python3",)),
    Program("perl", ["perl", "-e", PERL_SCRIPT], ("perl",), write_text(8000)),
    Program("git", ["bash", "-c", GIT_SCRIPT], ("git",), counted="git",
            ignored=("repository/.git/",)),
    Program("gcc", ["bash", "-c", "gcc -O2 -c main.c && gcc -O0 -o main main.o && ./main"],
            ("gcc",), write_files(main__c=C_SOURCE), counted="cc1"),
    Program("g++", ["bash", "-c", "g++ -std=c++17 -O1 -o main main.cc && ./main"], ("g++",),
            write_files(main__cc=CXX_SOURCE), counted="cc1plus"),
    Program("a C++ program", ["./main"], ("g++",), write_files(main__cc=CXX_SOURCE)),
    Program("sqlite3", ["sqlite3", "base", SQL], ("sqlite3",)),
    Program("ruby", ["ruby", "-e", RUBY_SCRIPT], ("ruby",), write_text(4000)),
    Program("node", ["node", "-e", NODE_SCRIPT], ("node",)),
    Program("lua", ["lua5.4", "-e", LUA_SCRIPT], ("lua5.4",)),
    # With its extensions, which PHP opens with RTLD_DEEPBIND (T08).
    Program("php", ["php", "-f", "main.php"], ("php",),
            write_files(main__php=PHP_SCRIPT), environment={"USE_ZEND_ALLOC": "0"}),
    Program("vim", ["vim", "-es", "-u", "NONE", "-i", "NONE", "-S", "script"], ("vim",),
            lambda d: (write_text(3000)(d), write_files(script=VIM_SCRIPT)(d))),
    Program("java", ["bash", "-c", "javac Main.java && java -XX:+UseSerialGC -Xmx128m Main"],
            ("javac", "java"), write_files(Main__java=JAVA_SOURCE)),
    Program("tar, xz, zstd and gzip", ["bash", "-c", TAR_SCRIPT], ("tar", "xz", "zstd"),
            write_text(1500), minimum_calls=2000),
    Program("sort, awk, sed, grep and find", ["bash", "-c", SORT_SCRIPT], ("sort", "awk"),
            write_text(8000)),
    Program("make", ["make", "-s", "-j4"], ("make",),
            lambda d: (write_text(300)(d), write_files(Makefile=MAKEFILE)(d)), counted="make"),
    Program("openssl", ["bash", "-c", OPENSSL_SCRIPT], ("openssl",), write_text(8000),
            counted="openssl"),
    Program("gdb", ["gdb", "-nx", "-batch", "-ex", "info functions", "-ex", "break main", "-ex",
                    "disassemble main", "main"], ("gdb", "gcc"), write_files(main__c=C_SOURCE)),
    Program("python3's own tests",
            ["/usr/bin/python3", "-m", "test", "-q", *PYTHON_SUITES], ("python3",),
            environment={"PYTHONMALLOC": "malloc"}, paths=("/usr/lib/python3.11/test/test_json",)),
]
