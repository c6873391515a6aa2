#!/usr/bin/env python3
"""The shared library keeps its promises: soname, each symbol with its version, and a size.
tests/golden/abi.txt records them; with --update as they are now.

Symbols may come: a release records them. None that was released may go or change its version."""

import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from exports import SHARED, nm  # noqa: E402
from house.report import Outcome  # noqa: E402
from house.tree import Tree  # noqa: E402

GOLDEN = "tests/golden/abi.txt"
SIZE_MOST = 200 << 10
PUBLISHED_SIZE = re.compile(r"(\d+) KiB stripped")


def promised(tree):
    soname = re.search(r"\(SONAME\).*\[(.*)\]", tree.run("readelf", "-dW", tree.build / SHARED))
    symbols = {name.replace("@@", "@") for name, kind in nm(tree, SHARED, "-D", "--defined-only")
               if kind != "A"}
    return [f"soname {soname.group(1) if soname else 'missing'}"] + sorted(symbols)


def stripped_size(tree):
    """Bytes of the shared library without what only debuggers read."""
    stripped = tree.build / "check-stripped.so"
    try:
        tree.run("strip", "-o", stripped, tree.build / SHARED)
        return stripped.stat().st_size
    finally:
        stripped.unlink(missing_ok=True)


def size_problems(tree, size):
    problems = []
    if size > SIZE_MOST:
        problems.append(f"{SHARED}: {size} bytes stripped; {SIZE_MOST} allowed")
    published = PUBLISHED_SIZE.search(tree.read("README.md"))
    if not published:
        problems.append("README.md: tells no size of the library; `tools/check/abi.py --update`")
    elif abs(int(published.group(1)) * 1024 - size) > size // 16:
        problems.append(f"README.md: tells {published.group(1)} KiB, the library has {size} bytes; "
                        "`tools/check/abi.py --update`")
    return problems


def check(tree):
    now, size = promised(tree), stripped_size(tree)
    recorded = tree.read(GOLDEN).splitlines()
    problems = [f"{SHARED}: {line} of {GOLDEN} is gone" for line in recorded if line not in now]
    new = len(set(now) - set(recorded))
    return Outcome(f"{len(recorded)} promises, {new} new symbols, {size >> 10} KiB stripped",
                   problems + size_problems(tree, size))


def update(tree):
    tree.path(GOLDEN).write_text("\n".join(promised(tree)) + "\n", encoding="utf-8")
    text = tree.read("README.md")
    size = f"{(stripped_size(tree) + 1023) >> 10} KiB stripped"
    tree.path("README.md").write_text(PUBLISHED_SIZE.sub(size, text), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(__doc__)
    update(Tree(Path(__file__).resolve().parents[2]))
