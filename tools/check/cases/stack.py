"""Trees for the rule on the slow path's stack."""

from house.fixture import Case

LEAF = "void fill(char *bytes);\nvoid fill(char *bytes) { bytes[0] = 1; }\n"
MALLOC = """
void fill(char *bytes);
void *malloc(unsigned long size);
void *malloc(unsigned long size) {{
    char bytes[{bytes}];
    fill(bytes);
    {extra}
    return (void *)(size + (unsigned long)bytes[0]);
}}
"""
LIBCS = LEAF + """
void libc_heap_release(void *block);
void libc_heap_release(void *block) { ((void (*)(void *))block)(block); }
"""


def source(size, extra=""):
    return {"src/base/leaf.c": LEAF, "src/base/a.c": MALLOC.format(bytes=size, extra=extra)}


CASES = [
    Case("a small frame", None, source(1000)),
    Case("a large frame", "release: malloc takes 5", source(5000)),
    Case("an unknown pointer", "release: malloc calls through a pointer",
         source(100, "((void (*)(void))size)();")),
    Case("a frame of variable size", "malloc takes stack by a number known at run time only",
         source(100, "char more[size]; fill(more);")),
    Case("libc's free below", "malloc takes 4",
         {**source(3800, "void libc_heap_release(void *); libc_heap_release(bytes);"),
          "src/base/leaf.c": LIBCS}),
]
