"""Trees for the rule on sizes."""

from house.fixture import Case

LONG_BODY = "    g();\n" * 60

CASES = [
    Case("small rooms", None, {
        "src/a.c": "static int table[] = {\n" + "    1,\n" * 80 + "};\nvoid f(void) {\n}\n",
        "cli/src/a.rs": "fn f<'a>(x: &'a str) -> char {\n    '{'\n}\n",
        "tools/a": "#!/usr/bin/env bash\nf() {\n    g\n}\n"}),
    Case("a long file", "501 lines", {"src/a.c": "int a;\n" * 501}),
    Case("a wide line", "101 columns", {"tests/a.py": "#" * 101 + "\n"}),
    Case("a long C function", "f has 62 lines",
         {"src/a.c": "void f(void) {\n" + LONG_BODY + "}\n"}),
    Case("a long C++ member", "grow has 62 lines",
         {"tests/a.cpp": "namespace n {\nstruct s {\nvoid grow() {\n" + LONG_BODY + "}\n};\n}\n"}),
    Case("a long Rust function", "run has 62 lines",
         {"cli/src/a.rs": "fn run() {\n" + LONG_BODY + "}\n"}),
    Case("a long Python function", "f has 61 lines",
         {"tools/a.py": "def f():\n" + "    g()\n" * 60}),
    Case("a long shell function", "f has 62 lines",
         {"tools/a": "#!/bin/sh\nf() {\n" + "    g\n" * 60 + "}\n"}),
]
