#!/usr/bin/env python3
"""Measure what a small program costs under each allocator: KiB resident when it exits.

The programs are `true`, `ls -lR /usr` and `python3 -c pass`; the figure is Rss of
/proc/PID/smaps_rollup at exit, the median of interleaved runs, and how far it is above glibc's.
"""

import argparse
import json
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

from harness.command import above_zero, tidy_end
from harness.environment import BenchError, enter_venv, helper

PROGRAMS = {
    "true": ["/bin/true"],
    "ls -lR /usr": ["/bin/ls", "-lR", "/usr"],
    "python3 -c pass": ["/usr/bin/python3", "-c", "pass"],
}
RUNS = 20
BASE = "glibc"


def resident_kib(words, allocator, report):
    """Rss at the exit of one run."""
    from harness.trial import clean_environment
    report.unlink(missing_ok=True)
    subprocess.run([helper("at_exit"), report, words[0], *allocator.assignments(), "--", *words],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env=clean_environment(), check=False)
    for line in report.read_text().splitlines() if report.exists() else []:
        if line.startswith("Rss:"):
            return int(line.split()[1])
    raise BenchError(f"{' '.join(words)} under {allocator.name} left no figure at its exit")


def measure(allocators, runs, seed):
    """{program: {allocator: median KiB}}, in an order shuffled anew for each run."""
    samples = {program: {one.name: [] for one in allocators} for program in PROGRAMS}
    shuffled = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="primalloc-floor-") as scratch:
        report = Path(scratch) / "report"
        for _ in range(runs):
            for program, words in PROGRAMS.items():
                for allocator in shuffled.sample(allocators, len(allocators)):
                    samples[program][allocator.name].append(
                        resident_kib(words, allocator, report))
    return {program: {name: statistics.median(values) for name, values in by_name.items()}
            for program, by_name in samples.items()}


def floor_table(medians):
    """One line an allocator; in each program's column the KiB and how far above glibc."""
    from harness.tables import Cell, Table
    table = Table("Resident at exit", f"KiB, and KiB above {BASE} in brackets.",
                  ["allocator", *medians])
    for name in next(iter(medians.values())):
        cells = [Cell(f"{by_name[name]:.0f} ({by_name[name] - by_name[BASE]:+.0f})")
                 for by_name in medians.values()]
        table.rows.append([Cell(name), *cells])
    return table


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allocators", metavar="A,B", help="names, or NAME=PATH of a library")
    parser.add_argument("--runs", type=above_zero(int), default=RUNS,
                        help=f"of each program ({RUNS})")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    options = parser.parse_args()
    enter_venv()
    from harness.allocators import chosen_allocators, named_allocators
    from harness.terminal import make_console, rich_table
    with tidy_end():
        chosen = chosen_allocators(options.allocators)
        if BASE not in {one.name for one in chosen}:
            chosen = [*named_allocators([BASE]), *chosen]
        medians = measure(chosen, options.runs, options.seed)
    if options.json:
        print(json.dumps(medians, indent=2))
    else:
        make_console().print(rich_table(floor_table(medians)))


if __name__ == "__main__":
    main()
