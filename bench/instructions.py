#!/usr/bin/env python3
"""Count the instructions that a cached malloc+free pair takes inside an allocator, or with --others
those of the other calls: free and delete of NULL, and pairs with calloc, aligned blocks, realloc.

callgrind runs loops of N and of 2N pairs for each size; the difference, divided by N, is what a
pair costs when everything is warm. Counted is what is executed outside the program itself: in the
allocator's library, both returns included, and in libstdc++ where that serves operator new; the
caller's instructions and its jump through the PLT are not. The counts are exact and repeatable:
load on the machine does not change them. valgrind has no restartable sequences, so TCMalloc is
counted with its per-thread caches, which are slower than the per-CPU ones it has elsewhere.
"""

import argparse
import json
import re
import sys

from harness.command import above_zero, numbers, tidy_end
from harness.counting import check_valgrind, section_dumps
from harness.environment import BenchError, enter_venv, helper

SIZES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 30000, 200000)
REPEATS = 1000
SECTIONS_PER_SIZE = 3
KINDS = ("malloc", "new")
NAME = re.compile(r"\((\d+)\)(?: (.*))?")


def self_cost_by_object(path):
    """{object: instructions executed in its own code} of one callgrind dump."""
    names, costs = {}, {}
    current, callee_line_follows = "", False
    for line in path.read_text().splitlines():
        if line.startswith("ob="):
            number, name = NAME.match(line[3:]).groups()
            current = names.setdefault(number, name)
        elif line.startswith("cob="):
            number, name = NAME.match(line[4:]).groups()
            names.setdefault(number, name)
        elif line.startswith("calls="):
            callee_line_follows = True
        elif line[:1] in "+-*0123456789" and line[:1]:
            # The line after "calls=" is the callee's cost, which is counted where it was spent.
            if not callee_line_follows:
                costs[current] = costs.get(current, 0) + int(line.split()[1])
            callee_line_follows = False
    return costs


def cost_outside_program(path, program):
    return sum(cost for name, cost in self_cost_by_object(path).items() if name != program)


def sections_counted(allocator, repeats, arguments):
    """(names that the helper prints, instructions of a round of each loop that it runs)."""
    program = str(helper("hot_pairs", "-fno-builtin", "-ldl"))
    words = [program, str(repeats), *map(str, arguments)]
    with section_dumps(words, allocator) as (output, dumps):
        counts = [cost_outside_program(dump, program) for dump in dumps]
    if len(counts) % SECTIONS_PER_SIZE:
        raise BenchError(f"{len(counts)} sections of hot_pairs were counted under {allocator.name}")
    # Each loop's dumps are warm, N and 2N.
    rounds = [round((twice - once) / repeats, 2)
              for once, twice in zip(counts[1::SECTIONS_PER_SIZE], counts[2::SECTIONS_PER_SIZE])]
    return output.split(), rounds


def count(allocator, sizes, repeats):
    """{"malloc": {size: instructions a pair}, "new": the same} under an allocator."""
    _, rounds = sections_counted(allocator, repeats, sizes)
    of_kind = [rounds[i:i + len(sizes)] for i in range(0, len(rounds), len(sizes))]
    return {kind: dict(zip(sizes, pairs)) for kind, pairs in zip(KINDS, of_kind, strict=True)}


def count_others(allocator, repeats):
    """{call: instructions, with the malloc and the free that it needs} under an allocator."""
    return dict(zip(*sections_counted(allocator, repeats, ["others"]), strict=True))


def counts_table(counts, sizes):
    """One line an allocator and kind, one column a size."""
    from harness.tables import Cell, Table
    table = Table("Instructions for a cached pair",
                  "Inside the library; new is operator new with sized operator delete.",
                  ["allocator", *(str(size) for size in sizes)])
    for name, by_kind in counts.items():
        for kind in KINDS:
            table.rows.append([Cell(f"{name} {kind}"),
                               *(Cell(f"{by_kind[kind][size]:g}") for size in sizes)])
    return table


def others_table(counts):
    """One line a call, one column an allocator."""
    from harness.tables import Cell, Table
    table = Table("Instructions of other calls",
                  "Inside the library and libc, with the malloc and the free that the call needs.",
                  ["call", *counts])
    for call in next(iter(counts.values()), {}):
        table.rows.append([Cell(call), *(Cell(f"{of[call]:g}") for of in counts.values())])
    return table


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allocators", metavar="A,B", help="names, or NAME=PATH of a library")
    parser.add_argument("--sizes", type=numbers, default=SIZES, metavar="A,B", help="in bytes")
    parser.add_argument("--repeats", type=above_zero(int), default=REPEATS, metavar="N",
                        help=f"pairs of the shorter loop ({REPEATS})")
    parser.add_argument("--others", action="store_true", help="calls beside malloc and free")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    options = parser.parse_args()
    enter_venv()
    from harness.allocators import AGAIN, chosen_allocators
    from harness.terminal import make_console, rich_table
    counts = {}
    with tidy_end():
        check_valgrind()
        for allocator in chosen_allocators(options.allocators):
            if allocator.name == AGAIN and not options.allocators:
                continue
            try:
                counts[allocator.name] = (
                    count_others(allocator, options.repeats) if options.others
                    else count(allocator, options.sizes, options.repeats))
            except BenchError as error:
                if options.allocators:
                    raise
                print(f"{allocator.name} left out: {error}", file=sys.stderr)
    if options.json:
        print(json.dumps(counts, indent=2))
    else:
        table = others_table(counts) if options.others else counts_table(counts, options.sizes)
        make_console().print(rich_table(table))


if __name__ == "__main__":
    main()
