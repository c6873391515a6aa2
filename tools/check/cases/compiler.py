"""Trees for the rule on compiler warnings."""

from pathlib import Path

from house.fixture import Case

ROOT = Path(__file__).resolve().parents[3]
CMAKE = [f"cmake/{path.name}" for path in (ROOT / "cmake").iterdir()]
PARTS = ["CMakeLists.txt", "VERSION", *CMAKE]
NAMED = ["src/api/start_main.c", "src/api/start_constructor.c", "src/api/start_dlopen.c",
         "src/api/prim.c", "src/api/standard_c.c", "src/api/unwatched.c", "src/watch/check.c",
         "include/primalloc.h"]
HOUSE = {name: (ROOT / name).read_text() for name in PARTS} | dict.fromkeys(NAMED, "")

CASES = [
    Case("no warning", None, HOUSE | {"src/base/a.c": "int prim_a(void);\nint prim_a(void) {\n"
                                      "    return 0;\n}\n"}),
    Case("no prototype", "src/base/a.c:1:5: error: no previous prototype",
         HOUSE | {"src/base/a.c": "int prim_a(void) {\n    return 0;\n}\n"}),
]
