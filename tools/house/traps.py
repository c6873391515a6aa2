"""The traps of tests/traps/traps.def and the tests that carry their numbers."""

import re
from dataclasses import dataclass

from house import tables

TRAPS = "tests/traps/traps.def"
COUNT = 58
C_TEST = re.compile(r"^(?:static )?void (test_t(\d\d)_\w+)\(", re.MULTILINE)
PYTHON_TEST = re.compile(r"^((?:@.*\n(?:[ )\]].*\n)*)*)def (test_t(\d\d)_\w+)\(", re.MULTILINE)
PROVE = "pytest.mark.prove"
FOLDERS_OF_C = re.compile(r"tests/(api|fork|threads|model|unit)/")


@dataclass
class Test:
    name: str
    path: str
    where: str


def tests_of_file(tree, path):
    """(number, test) of each test that carries a number."""
    text = tree.read(path)
    if path.endswith(".py"):
        for decorators, name, number in PYTHON_TEST.findall(text):
            where = "make prove" if PROVE in decorators else "make test"
            yield int(number), Test(name, path, where)
    elif FOLDERS_OF_C.match(path):
        for name, number in C_TEST.findall(text):
            if len(re.findall(rf"\b{name}\b", text)) > 1:  # defined, and run
                yield int(number), Test(name, path, "make test")


def traps(tree):
    """number: (sentence, tests)."""
    found = {int(number): (sentence, [])
             for number, sentence in tables.entries(tree.read(TRAPS), "TRAP")}
    for path in tree.files("tests", suffixes={".py", ".c", ".cc"}):
        for number, test in tests_of_file(tree, path):
            if number not in found:
                raise ValueError(f"{path}: {test.name}: there is no trap of this number")
            found[number][1].append(test)
    return found


def traps_table(tree):
    """The rows of docs/compatibility.md."""
    lines = ["| trap | what breaks programs | tests | run by |", "|---|---|---|---|"]
    for number, (sentence, tests) in sorted(traps(tree).items()):
        names = ", ".join(f"`{test.name}`" for test in tests)
        where = ", ".join(f"`{where}`" for where in sorted({test.where for test in tests})[::-1])
        lines.append(f"| T{number:02} | {sentence} | {names} | {where} |")
    return lines
