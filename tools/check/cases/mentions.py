"""Trees for the rule on mentions."""

from house.fixture import Case

TREE = {
    "src/LAYERS": "base\n",
    "src/base/bits.h": "unsigned bits_highest(unsigned long value);\n",
    "src/settings/options.def": 'OPTION(purge, BOOL, START, 1, 0, 1, "", "give pages back")\n',
    "docs/other.md": "# A heading, with a comma\n",
}


def document(text):
    return TREE | {"docs/a.md": text}


CASES = [
    Case("all there", None, document(
        "`src/base/bits.h` `base/bits.h` `bits.h` `bits_highest()` `PRIMALLOC_PURGE`\n"
        "`build/lib/x.so`\n"
        "[other](other.md#a-heading-with-a-comma) [out](https://example.org) `any words at all`\n"
        "```\n`none_such_at_all`\n```\n")),
    Case("no such file", "no file `src/base/none.h`", document("`src/base/none.h`\n")),
    Case("no such bare file", "no file `none.h`", document("`none.h`\n")),
    Case("no such function", "`bits_lowest` occurs nowhere", document("`bits_lowest()`\n")),
    Case("no such option", "`PRIMALLOC_MERGE` occurs nowhere", document("`PRIMALLOC_MERGE`\n")),
    Case("no such constant", "`BITS_MOST` occurs nowhere",
         TREE | {"docs/decisions/0001-a.md": "`BITS_LEAST` and `BITS_MOST`\n",
                 "src/base/bits.c": "enum { BITS_LEAST = 1 };\n"}),
    Case("a dead link", "leads nowhere", document("[none](none.md)\n")),
    Case("a dead anchor", "no heading for #none", document("[other](other.md#none)\n")),
    Case("a comment", "src/base/a.c:2: `bits_none` occurs nowhere",
         TREE | {"src/base/a.c": "\n/* see `bits_none` */\n"}),
    Case("frames of suppressions", None,
         TREE | {"a.supp": "{\n   some words\n   fun:bits_highest\n   fun:_dl_fixup*\n}\n"}),
    Case("a frame that is gone", "a.supp:2: `bits_none` occurs nowhere",
         TREE | {"a.supp": "{\n   fun:bits_none\n}\n"}),
]
