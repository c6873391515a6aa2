"""The version is written in VERSION; every other place agrees with it."""

import re

from house.report import Outcome

CRATE = r'^version\s*=\s*"([^"]+)"'
LOCK = r'^name = "primalloc"\nversion = "([^"]+)"'
PLACES = {
    "cli/Cargo.toml": CRATE,
    "cli/Cargo.lock": LOCK,
    "bindings/rust/Cargo.toml": CRATE,
    "bindings/rust/Cargo.lock": LOCK,
    "examples/rust/Cargo.lock": LOCK,
    "CHANGELOG.md": r"^## \[(\d[^\]]*)\]",
}
HEADER = "include/primalloc.h"
NUMBERS = [("MAJOR", 0), ("MINOR", 1), ("PATCH", 2)]


def header_problems(tree, version):
    """The header may spell the version as one string, as three numbers or as both."""
    text = tree.read(HEADER)
    strings = re.findall(r'#\s*define\s+PRIM\w*VERSION\w*\s+"([^"]+)"', text)
    problems = [f"{HEADER}: says {found}" for found in strings if found != version]
    numbers = 0
    for name, place in NUMBERS:
        match = re.search(rf"#\s*define\s+PRIM\w*VERSION_{name}\s+(\d+)", text)
        if match:
            numbers += 1
            if match.group(1) != version.split(".")[place]:
                problems.append(f"{HEADER}: {name} is {match.group(1)}")
    if not strings and numbers != len(NUMBERS):
        problems.append(f'{HEADER}: defines no version (PRIM_VERSION "{version}")')
    return problems


def check(tree):
    version = tree.read("VERSION").strip()
    problems = [] if re.fullmatch(r"\d+\.\d+\.\d+", version) else [f"VERSION: '{version}'"]
    for path, pattern in PLACES.items():
        match = re.search(pattern, tree.read(path), re.MULTILINE) if tree.exists(path) else None
        if not match:
            problems.append(f"{path}: names no version")
        elif match.group(1) != version:
            problems.append(f"{path}: says {match.group(1)}")
    problems += header_problems(tree, version)
    return Outcome(f"{version} in {len(PLACES) + 2} places", problems)
