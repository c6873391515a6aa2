"""Trees for the rule on layout."""

from pathlib import Path

from house.fixture import Case

ROOT = Path(__file__).resolve().parents[3]
HOUSE = {name: (ROOT / name).read_text() for name in (".clang-format", "tools/format")}

CASES = [
    Case("laid out", None, HOUSE | {"src/a.c": "int a;\n"}),
    Case("not laid out", "src/a.c: `make format`", HOUSE | {"src/a.c": "int   a ;\n"}),
]
