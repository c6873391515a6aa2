#!/usr/bin/env python3
"""The hot path runs exactly the instructions of tests/golden/hot_path.json, and few of them.

Two counts are compared: the instructions from entry to return in the disassembly, and what
callgrind counts inside the library for a pair of calls that the thread's cache serves. After a
change that is meant to change them: tools/check/hot_path.py --update"""

import json
import os
import platform
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tools"))
    sys.dont_write_bytecode = True

from house import machine_code
from house.report import Outcome
from house.tree import Tree

GOLDEN = "tests/golden/hot_path.json"
DRIVER = "tools/check/hot_path_driver.c"
LIBRARY = "lib/libprimalloc.so"
ENTRIES = ["malloc", "free", "_Znwm", "_ZdlPv"]
PAIRS = 1000
# The most that a pair may take, by its size in bytes; and with something in between, by its name.
LIMITS = [(1024, 28), (32 * 1024, 45), (256 * 1024, 60)]
OTHER_LIMITS = {"free_null": 24, "usable": 56, "grown": 160}


def paths_counted(tree):
    library = tree.build / LIBRARY
    return {symbol: machine_code.shortest_path(machine_code.disassemble(tree, library, symbol))
            for symbol in ENTRIES}


def pairs_counted(tree):
    """Instructions inside the library for each pair of tools/check/hot_path_pairs.def."""
    folder = tree.build / "check"
    folder.mkdir(parents=True, exist_ok=True)
    driver, record = folder / "hot_path_driver", folder / "hot_path.callgrind"
    # Functions of equal code stay apart (no ipa-icf): the record tells them by their names.
    tree.run("gcc", "-O2", "-g", "-fno-plt", "-fno-builtin", "-fno-ipa-icf", "-o", driver,
             ROOT / DRIVER, "-Wl,--no-as-needed", tree.build / LIBRARY,
             f"-Wl,-rpath,{tree.build / 'lib'}")
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("LD_", "PRIMALLOC_"))}
    tree.run("valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
             f"--callgrind-out-file={record}", driver, env=environment)
    spent = machine_code.callgrind_calls(record.read_text(), "measure_", "libprimalloc")
    return {name.removeprefix("measure_"): cost // PAIRS if cost % PAIRS == 0 else cost / PAIRS
            for name, cost in sorted(spent.items())}


def compiler(tree):
    """Name and major version of the compiler that made the library, as it signed it."""
    text = tree.run("readelf", "-p", ".comment", tree.build / LIBRARY)
    match = re.search(r"(GCC|clang)\b.*?(\d+)\.\d+\.\d+", text)
    return f"{match.group(1)} {match.group(2)}" if match else "unknown"


def measured(tree):
    return {"compiler": compiler(tree), "entry_to_return": paths_counted(tree),
            "pairs": pairs_counted(tree)}


def limit_of(pair):
    name, size = pair.rsplit("_", 1)
    if name in OTHER_LIMITS:
        return OTHER_LIMITS[name]
    return next(limit for largest, limit in LIMITS if int(size) <= largest)


def compare(now, golden):
    """What differs from the golden counts; other compilers' counts are only held to the limits."""
    problems = []
    for name, count in now["pairs"].items():
        if count > limit_of(name):
            problems.append(f"{name}: {count} instructions a pair, {limit_of(name)} allowed")
    if golden is None:
        return problems + [f"{GOLDEN}: has nothing for {platform.machine()}; --update writes it"]
    if now["compiler"] != golden["compiler"]:
        return problems
    for kind in ("entry_to_return", "pairs"):
        for name in sorted(set(now[kind]) | set(golden[kind])):
            count, expected = now[kind].get(name), golden[kind].get(name)
            if count != expected:
                problems.append(f"{name}: {count} instructions, the golden count is {expected}")
    return problems


def read_golden(tree):
    return json.loads(tree.read(GOLDEN)) if tree.exists(GOLDEN) else {}


def check(tree):
    now = measured(tree)
    problems = compare(now, read_golden(tree).get(platform.machine()))
    pairs = ", ".join(f"{name} {count}" for name, count in now["pairs"].items())
    return Outcome(f"a pair: {pairs} ({now['compiler']})", problems)


def update(tree, quiet=False):
    golden = read_golden(tree)
    golden[platform.machine()] = measured(tree)
    tree.path(GOLDEN).parent.mkdir(parents=True, exist_ok=True)
    tree.path(GOLDEN).write_text(json.dumps(golden, indent=2, sort_keys=True) + "\n")
    if not quiet:
        print(f"wrote {GOLDEN}: {json.dumps(golden[platform.machine()])}")


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit("usage: tools/check/hot_path.py --update, or tools/check/run hot_path")
    update(Tree(ROOT))
