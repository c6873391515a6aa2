#!/usr/bin/env python3
"""What settings cost in instructions: whole programs, with the settings against without.

    bench/overhead.py PRIMALLOC_GUARDED=1                # all rows with one thread
    bench/overhead.py --rows pair-same,churn-1k PRIMALLOC_HARDENED=1
    bench/overhead.py --part 10 PRIMALLOC_PROFILE=/tmp/%p.pb.gz,rate=1G  # what no sample costs

Counts every instruction of every process of a row with callgrind, first with the library as it is,
then with the settings, and prints the ratios and their geometric mean. Counts do not depend on the
machine's load. A row takes about a hundred times its seconds.
"""

import argparse
import ctypes
import math
import os
import re
import subprocess
import tempfile
from pathlib import Path

from harness.allocators import LIBRARY, OURS, named_allocators, serving, with_settings
from harness.command import above_zero, tidy_end
from harness.counting import check_valgrind, environment_of
from harness.environment import BenchError, build_workloads, enter_venv
from harness.rows import load_rows, prepare_row, select_rows
from harness.trial import STEERING

TOTALS = re.compile(r"^(?:summary|totals): (\d+)", re.M)
# Which word of a workload's command says how much is done.
ROUNDS = {"array-fill": 2, "array-replace": 2, "big-blocks": 1, "boolean-covers": 3,
          "cache-scratch": 2, "churn": 2, "continued-fraction": 1, "drifting-sizes": 3,
          "eight-bytes": 1, "old-generation": 2, "pairs": 2, "pareto": 2, "phases": 2,
          "t-test1": 3, "thread-churn": 1}


def shortened(words, part):
    """The command with one part of the rounds, where it is known how to say so."""
    place = ROUNDS.get(Path(words[0]).name)
    if not place:
        return words
    return [*words[:place], str(max(1, int(words[place]) // part)), *words[place + 1:]]


def adopt_orphans():
    """Makes children whose parent has ended our own, so that we can wait for them."""
    subreaper = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)
    ctypes.CDLL(None).prctl(subreaper, 1, 0, 0, 0)


def wait_for_orphans():
    """A server that was told to end writes its counts a little later than its client ends."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def count(row, scratch, part, allocator):
    """Instructions of the row's command and of the processes it starts; None if it fails."""
    with tempfile.TemporaryDirectory(prefix="primalloc-overhead-") as folder:
        answer = subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes",
             f"--callgrind-out-file={folder}/out.%p", *shortened(row.words(scratch), part)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment_of(allocator, row.assignments(scratch)), cwd=scratch, check=False)
        wait_for_orphans()
        if answer.returncode != 0:
            return None
        return sum(max(map(int, TOTALS.findall(path.read_text())), default=0)
                   for path in Path(folder).glob("out.*"))


def compared_rows(options):
    """Rows with one thread that do not take too long; which others were asked for is told."""
    for row in select_rows(load_rows(), options.rows, False):
        if row.threads == 1 and row.seconds <= options.longest:
            yield row
        elif options.rows:
            print(f"{row.name:24} left out: {row.threads} threads, {row.seconds:g} s", flush=True)


def compare(options):
    """Print a line a row, and the mean."""
    check_valgrind()
    [usual] = named_allocators([f"{OURS}={options.library}"])
    usual, changed_way = serving([usual, with_settings(usual, options.assignments)])
    for one in options.assignments:
        if not one.startswith(STEERING):
            raise BenchError(f"nothing that is measured here reads {one.partition('=')[0]}")
    rows = list(compared_rows(options))
    build_workloads()
    adopt_orphans()
    logarithms = []
    with tempfile.TemporaryDirectory(prefix="primalloc-overhead-rows-") as scratch:
        for row in rows:
            prepare_row(row, scratch)
            plain = count(row, scratch, options.part, usual)
            changed = plain and count(row, scratch, options.part, changed_way)
            if not changed:
                print(f"{row.name:24} does not run under callgrind", flush=True)
                continue
            logarithms.append(math.log(changed / plain))
            print(f"{row.name:24} {plain:14,} {changed:14,} {changed / plain:8.4f}", flush=True)
    if not logarithms:
        raise BenchError("no row was counted")
    mean = math.exp(sum(logarithms) / len(logarithms))
    print(f"geometric mean of {len(logarithms)} rows: {mean:.4f}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assignments", nargs="+", metavar="NAME=VALUE")
    parser.add_argument("--rows", metavar="A,B", help="names or groups (all with one thread)")
    parser.add_argument("--longest", type=above_zero(float), default=1.0, metavar="S",
                        help="leave rows out that take longer without callgrind (1 s)")
    parser.add_argument("--part", type=above_zero(int), default=1, metavar="N",
                        help="one N-th of the rounds of rows that have them")
    parser.add_argument("--library", type=Path, default=LIBRARY, metavar="PATH")
    options = parser.parse_args()
    enter_venv()
    with tidy_end():
        compare(options)


if __name__ == "__main__":
    main()
