"""Trees for the rule on the walks of docs/architecture.md."""

from house.fixture import Case

SOURCE = {
    "src/api/standard_c.c": "void *malloc(unsigned long n) {\n    return 0;\n}\n",
    "src/objects/allocate.h": "static inline void *allocate(unsigned long n) {\n    return 0;\n}\n",
}
GOOD = "1. `src/api/standard_c.c` `malloc`: the entry.\n2. `src/objects/allocate.h` `allocate()`\n"


def walk(steps, name="malloc-free"):
    text = f"<!-- walk:begin {name} -->\n{steps}<!-- walk:end -->\n"
    return SOURCE | {"docs/architecture.md": text}


CASES = [
    Case("a short walk", None, walk(GOOD)),
    Case("no such function", "defines no `free`", walk("1. `src/api/standard_c.c` `free`\n")),
    Case("no such file", "no file `src/none.c`", walk("1. `src/none.c` `malloc`\n")),
    Case("a line without a function", "is not N. `file` `function`",
         walk(GOOD + "3. then it ends\n")),
    Case("too many calls", "at most 6 and 5", walk(GOOD * 3)),
    Case("the bounded walk is missing", "no walk named malloc-free", walk(GOOD, "first-malloc")),
]
