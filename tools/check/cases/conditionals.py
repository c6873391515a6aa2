"""Trees for the rule on `#if`."""

from house.fixture import Case

GUARDED = "#ifndef PRIM_A_H\n#define PRIM_A_H\n%s#endif\n"

CASES = [
    Case("in base and os", None,
         {"src/base/a.h": GUARDED % "#if X\n#endif\n", "src/os/a.c": "#ifdef X\n#endif\n"}),
    Case("guard and __cplusplus", None,
         {"src/api/a.h": "/* Head. */\n" + GUARDED % "#ifdef __cplusplus\n#endif\n"}),
    Case("in a comment", None, {"src/api/a.c": "/* #if is not for here:\n#if X\n*/\n"}),
    Case("in a function", "src/objects/a.c:2",
         {"src/objects/a.c": "void f(void) {\n#if PRIM_CHECKED\n#endif\n}\n"}),
    Case("beside a guard", "#ifdef X", {"src/api/a.h": GUARDED % "#ifdef X\n#endif\n"}),
    Case("in a table", "#ifndef", {"src/api/a.def": "#ifndef X\n#endif\n"}),
]
