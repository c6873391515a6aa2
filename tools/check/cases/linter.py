"""Trees for the rule on the linters."""

import json
from pathlib import Path

from house.fixture import Case

ROOT = Path(__file__).resolve().parents[3]
HOUSE = {".clang-tidy": (ROOT / ".clang-tidy").read_text()}


def write_database(tree):
    folder = tree.build / "cmake"
    folder.mkdir(parents=True)
    entry = {"directory": str(tree.root), "file": str(tree.path("src/a.c")),
             "command": "gcc -std=gnu11 -c src/a.c"}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))


CASES = [
    Case("nothing to say", None, HOUSE | {"src/a.c": "int a(void) {\n    return 0;\n}\n"},
         write_database),
    Case("a defect", "src/a.c:2", HOUSE | {"src/a.c": "int a(int b) {\n    return b && b;\n}\n"},
         write_database),
    Case("no database", "compile_commands.json is missing", HOUSE | {"src/a.c": ""}),
]
