"""Trees for the rule on generated documents."""

from house.documents import render_all
from house.fixture import Case

TABLES = {
    "src/settings/options.def":
        '/* OPTION(name, ...) */\nOPTION(purge_delay, TIME_MS, 500, 0, 1000, "ms",\n'
        '       "how long, (in all),"\n       " pages wait")\n',
    "src/api/exports.def": 'EXPORT(malloc, C, "C11 7.22.3.4")\n',
}


def write_documents(tree):
    for path, text in render_all(tree).items():
        tree.path(path).parent.mkdir(exist_ok=True)
        tree.path(path).write_text(text)


def change_a_table(tree):
    write_documents(tree)
    table = tree.path("src/settings/options.def")
    table.write_text(table.read_text().replace("500", "600"))


CASES = [
    Case("fresh documents", None, TABLES, write_documents),
    Case("no document", "docs/options.md: is missing", TABLES),
    Case("a table changed since", "docs/options.md: is out of date", TABLES, change_a_table),
    Case("an unknown group", "unknown group",
         TABLES | {"src/api/exports.def": 'EXPORT(malloc, SYSV, "SVID")\n'}),
]
