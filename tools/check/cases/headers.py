"""Trees for the rule on public headers."""

from house.fixture import Case

GOOD = """#ifndef A_H
#define A_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void *prim_malloc(size_t size);
#ifdef __cplusplus
}
#endif
#endif
"""

CASES = [
    Case("complete", None, {"include/a.h": GOOD}),
    Case("not alone", "c11:", {"include/a.h": GOOD.replace("#include <stddef.h>", "")}),
    Case("not C++", "c++11:", {"include/a.h": GOOD.replace("size_t size", "size_t new")}),
    Case("with a warning", "c11:", {"include/a.h": GOOD.replace("extern \"C\" {", "\\").replace(
        "void *prim_malloc(size_t size);", "static int unused(void);")}),
    Case("none at all", "holds no header", {"docs/a.md": ""}),
]
