"""Trees for the rule on generated documents."""

from house.documents import render_all
from house.fixture import Case

TABLES = {
    "src/settings/options.def":
        '/* OPTION(name, ...) */\nOPTION(purge_delay, TIME_MS, START, 500, 0, 1000, "ms",\n'
        '       "how long, (in all),"\n       " pages wait")\n',
    "src/settings/glibc_knobs.def":
        'KNOB(top_pad, "MALLOC_TOP_PAD_", "M_TOP_PAD", -2, SIZE_T, 0, 9, SETS, top_pad, "spare")\n',
    "src/api/exports.def": 'EXPORT(malloc, C, "C11 7.22.3.4")\n',
    "src/watch/figures.def":
        'FIGURE(live_bytes, BALANCE, GAUGE, "held")\n'
        'CLASS_FIGURE(slabs, BALANCE, GAUGE, "slabs")\n'
        'HEAP_FIGURE(live_bytes, BALANCE, GAUGE, "held")\n',
    "docs/compatibility.md": "# By hand\n<!-- knobs:begin -->\n<!-- knobs:end -->\nBy hand\n",
}


def header(body):
    """A tree whose header declares one function below a section."""
    exports = 'EXPORT(prim_malloc, PRIM, "C11")\n'
    text = ("/* x.h */\n#ifndef X_H\n#define X_H\n/* == Blocks ==\n * Sizes: bytes.\n"
            f" * Alignment: 16.\n * Threads: any. */\n\n{body}#endif\n")
    return TABLES | {"src/api/exports.def": exports, "include/primalloc.h": text}


DECLARATION = "void *prim_malloc(size_t size);\n"
COMMENT = "/* A block.\n * Errors: NULL. */\n"


def cxx(body):
    """The same, and a header for C++ with a declaration; what is inside needs no comment."""
    return header(COMMENT + DECLARATION) | {
        "include/primalloc-new-delete.hpp": "// x - new.\n//\n// Once.\n",
        "include/primalloc.hpp": "// y - C++.\n//\n// All.\nnamespace prim {\n" + body
                                 + "namespace detail {\nclass hidden {};\n}\n}\n"}


def write_documents(tree):
    for path, text in render_all(tree).items():
        tree.path(path).parent.mkdir(exist_ok=True)
        tree.path(path).write_text(text)


def change_a_table(tree):
    write_documents(tree)
    table = tree.path("src/settings/options.def")
    table.write_text(table.read_text().replace("500", "600"))


def change_the_knobs(tree):
    write_documents(tree)
    table = tree.path("src/settings/glibc_knobs.def")
    table.write_text(table.read_text().replace("spare", "room"))


def lose_the_marks(tree):
    write_documents(tree)
    tree.path("docs/compatibility.md").write_text("# By hand\n")


CASES = [
    Case("fresh documents", None, TABLES, write_documents),
    Case("no document", "docs/options.md: is missing", TABLES),
    Case("a table changed since", "docs/options.md: is out of date", TABLES, change_a_table),
    Case("knobs changed since", "docs/compatibility.md: is out of date", TABLES, change_the_knobs),
    Case("no place for the knobs", "needs <!-- knobs:begin -->", TABLES, lose_the_marks),
    Case("a header that tells all", None, header(COMMENT + DECLARATION), write_documents),
    Case("errors untold", "prim_malloc: no line `Errors:`",
         header("/* A block. */\n" + DECLARATION), write_documents),
    Case("errors on two lines", None, header(
        "/* A block.\n * Errors: NULL with\n *   ENOMEM. */\n" + DECLARATION), write_documents),
    Case("errors torn apart", "prim_malloc: `ENOMEM.` stands behind a fact", header(
        "/* A block.\n * Errors: NULL with\n * ENOMEM. */\n" + DECLARATION), write_documents),
    Case("no comment", "prim_malloc has no comment", header(DECLARATION), write_documents),
    Case("alignment untold", "no line `Alignment:`", header(
        "/* == More ==\n * Threads: any. */\n\n" + COMMENT + DECLARATION), write_documents),
    Case("no source", "prim_free is not in", header(
        COMMENT + DECLARATION + "void prim_free(void *block);\n"), write_documents),
    Case("not declared", "does not declare prim_malloc", header(""), write_documents),
    Case("the header changed since", "reference/blocks.md: is out of date",
         header(COMMENT + DECLARATION), lambda tree: (write_documents(tree), tree.path(
             "include/primalloc.h").write_text(
                 tree.read("include/primalloc.h").replace("A block.", "Blocks.")))),
    Case("C++ that tells all", None, cxx("// Numbers.\nclass box {};\n"), write_documents),
    Case("C++ without a comment", "primalloc.hpp:5: box has no comment", cxx("class box {};\n"),
         write_documents),
    Case("an unknown group", "unknown group",
         TABLES | {"src/api/exports.def": 'EXPORT(malloc, SYSV, "SVID")\n'}),
]
