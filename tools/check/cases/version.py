"""Trees for the rule on the version."""

from house.fixture import Case

MANIFEST = '[package]\nname = "primalloc"\nversion = "1.2.3"\n'
LOCK = '[[package]]\nname = "primalloc"\nversion = "1.2.3"\n'
TREE = {
    "VERSION": "1.2.3\n",
    "CHANGELOG.md": "## [Unreleased]\n\n## [1.2.3] - 2026-01-01\n",
    "cli/Cargo.toml": MANIFEST,
    "cli/Cargo.lock": LOCK,
    "bindings/rust/Cargo.toml": MANIFEST,
    "bindings/rust/Cargo.lock": LOCK,
    "examples/rust/Cargo.lock": LOCK,
    "include/primalloc.h": '#define PRIM_VERSION "1.2.3"\n',
}

CASES = [
    Case("all agree", None, TREE),
    Case("numbers in the header", None, TREE | {"include/primalloc.h": (
        "#define PRIM_VERSION_MAJOR 1\n#define PRIM_VERSION_MINOR 2\n"
        "#define PRIM_VERSION_PATCH 3\n")}),
    Case("another tool", "cli/Cargo.toml: says 1.2.4",
         TREE | {"cli/Cargo.toml": 'version = "1.2.4"\n'}),
    Case("another crate", "bindings/rust/Cargo.toml: says 1.2.4",
         TREE | {"bindings/rust/Cargo.toml": 'version = "1.2.4"\n'}),
    Case("another header", "include/primalloc.h: says 1.2.0",
         TREE | {"include/primalloc.h": '#define PRIM_VERSION "1.2.0"\n'}),
    Case("another number", "MINOR is 9", TREE | {"include/primalloc.h": (
        "#define PRIM_VERSION_MAJOR 1\n#define PRIM_VERSION_MINOR 9\n"
        "#define PRIM_VERSION_PATCH 3\n")}),
    Case("a header without", "defines no version", TREE | {"include/primalloc.h": ""}),
    Case("a changelog without", "names no version", TREE | {"CHANGELOG.md": "# Changes\n"}),
    Case("no version", "VERSION: 'soon'", TREE | {"VERSION": "soon\n"}),
]
