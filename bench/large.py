#!/usr/bin/env python3
"""Measure what primalloc is to reach with large memory, with its peers beside it, in one table.

The rows are those of bench/large.toml; each can be run alone. Figures that the kernel counts
(faults, bytes, threads, how a program ended) need one pass; rows that compare times run several,
interleaved.

Examples:
  bench/large                                   every row, about half an hour
  bench/large --quick                           small sizes and the four best-known peers
  bench/large --rows 'turns-64M,idle-*'         some rows
  bench/large --allocators primalloc,glibc,mine=/tmp/mine.so
  bench/large.py --report a.json b.json         the table of what --json printed, rows of all files
"""

import argparse
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

from harness.allocators import WELL_KNOWN
from harness.campaign import FAR_BEHIND
from harness.command import above_zero, scratch_folder, tidy_end
from harness.environment import BenchError, build_workloads, enter_venv, read_json

PASSES = 6
QUICK_PASSES = 2
TIMEOUT_LEAST_S, TIMEOUT_FACTOR = 60.0, 10.0
# What --json prints.
PARTS = {"machine", "passes", "seed", "allocators", "rows"}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="small sizes, few passes, the best-known peers")
    parser.add_argument("--rows", metavar="PATTERN",
                        help="comma-separated shell patterns of row names")
    parser.add_argument("--allocators", metavar="A,B", help="names, or NAME=PATH of a library")
    parser.add_argument("--passes", type=above_zero(int), metavar="N",
                        help=f"of the rows that compare ({PASSES}; quick {QUICK_PASSES})")
    parser.add_argument("--seed", type=int, default=1, help="of the order of trials")
    parser.add_argument("--report", type=Path, nargs="+", metavar="FILE",
                        help="measure nothing: draw the table of files that --json printed")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    parser.add_argument("--markdown", action="store_true",
                        help="print the machine's facts and the table in Markdown")
    return parser.parse_args()


def chosen_allocators(options):
    from harness.allocators import AGAIN, OURS, chosen_allocators

    chosen = chosen_allocators(options.allocators)
    if options.allocators:
        return chosen
    return [one for one in chosen
            if one.name != AGAIN and (not options.quick or one.name in (OURS, *WELL_KNOWN))]


class Measurement:
    """The passes of one row: {allocator: {pass number: figures}}, and who failed and how."""

    def __init__(self, row, allocators, scratch):
        self.row = row
        self.allocators = allocators
        self.scratch = scratch
        self.passes = {one.name: {} for one in allocators}
        self.failures = {}
        self.far_behind = set()

    def run(self, passes, seed, tell):
        """All passes, each in an order of its own."""
        for number in range(1, passes + 1):
            order = list(self.allocators)
            random.Random(f"{seed}/{number}/{self.row.name}").shuffle(order)
            for allocator in order:
                if allocator.name not in self.failures and allocator.name not in self.far_behind:
                    tell(f"{self.row.name}, {allocator.name}, pass {number} of {passes}")
                    self.trial(number, allocator)
            if number == 2:
                self.leave_far_behind()

    def trial(self, number, allocator):
        from harness.goals import failure_of, figures_of
        from harness.trial import run_trial
        outcome = run_trial(
            self.row.words(self.scratch),
            self.row.assignments(self.scratch) + allocator.assignments(), self.scratch,
            max(TIMEOUT_LEAST_S, TIMEOUT_FACTOR * self.row.seconds))
        failure = failure_of(self.row, outcome)
        if failure:
            self.failures[allocator.name] = failure
            return
        figures = figures_of(outcome)
        for goal in self.row.goals:
            if goal.figure not in figures:
                raise BenchError(f"{self.row.name} under {allocator.name} did not print the "
                                 f"figure {goal.figure}: {outcome.output.strip()[-200:]}")
        self.passes[allocator.name][number] = figures

    def leave_far_behind(self):
        """Find the peers that are far from the best in every figure that is compared."""
        compared = [goal.figure for goal in self.row.goals if goal.of_best is not None]
        peers = {one.name for one in self.allocators if one.is_peer} - set(self.failures)
        least = {(name, figure): min(one[figure] for one in self.passes[name].values())
                 for name in peers for figure in compared}
        best = {figure: min(least[name, figure] for name in peers)
                for figure in compared if peers}
        self.far_behind = {name for name in peers if all(
            least[name, figure] > FAR_BEHIND * best[figure] for figure in compared)}


def measure_rows(rows, allocators, passes, seed):
    """Each row with its figures and judgements; an interrupt, or a row that makes no sense, keeps
    the rows that are whole."""
    from harness.allocators import OURS
    from harness.goals import judge
    from rich.console import Console

    results = []
    try:
        with scratch_folder("large") as scratch, Console(stderr=True).status("") as status:
            for row in rows:
                one = Measurement(row, allocators, Path(scratch))
                one.run(passes if row.is_compared else 1, seed, status.update)
                judgements = [judge(goal, one.passes, one.failures, OURS) for goal in row.goals]
                results.append({"name": row.name, "about": row.about,
                                "command": list(row.command), "failures": one.failures,
                                "passes": one.passes,
                                "goals": [asdict(judgement) for judgement in judgements]})
    except (KeyboardInterrupt, BenchError, OSError) as reason:
        if not results:
            raise
        why = f": {reason}" if str(reason) else ""
        print(f"interrupted{why}; {len(results)} of {len(rows)} rows are reported",
              file=sys.stderr)
    return results


def measure(options):
    """What JSON keeps: the machine's facts, the allocators, and each row with its judgements."""
    from harness.goals import load_goal_rows
    from harness.machine import machine_facts
    from harness.rows import matching

    rows = load_goal_rows(options.quick)
    if options.rows:
        rows = matching(rows, options.rows, ("name",), "bench/large.toml")
    build_workloads()
    allocators = chosen_allocators(options)
    facts = machine_facts()
    passes = options.passes or (QUICK_PASSES if options.quick else PASSES)
    return {"machine": facts, "quick": options.quick, "passes": passes, "seed": options.seed,
            "allocators": [one.facts() for one in allocators],
            "rows": measure_rows(rows, allocators, passes, options.seed)}


def read_reports(paths):
    """What --json printed, the rows of all files together with the first one's facts."""
    reports = [read_json(path) for path in paths]
    for path, one in zip(paths, reports):
        if not isinstance(one, dict) or not PARTS <= one.keys():
            raise BenchError(f"{path} was not printed by bench/large --json")
    for other in reports[1:]:
        if other["allocators"] != reports[0]["allocators"]:
            raise BenchError("the files to report are of different allocators")
        reports[0]["rows"] += other["rows"]
    return reports[0]


def print_markdown(raw, table):
    from harness.markdown import allocator_lines, fact_lines, markdown_table
    print("\n\n".join(["# Large memory", "\n".join(fact_lines(raw)), "## Allocators",
                       "\n".join(allocator_lines(raw)), markdown_table(table)]))


def main():
    options = arguments()
    enter_venv()
    from harness.goal_table import goal_table
    from harness.terminal import make_console, rich_table
    with tidy_end("interrupted before there was anything to report"):
        raw = read_reports(options.report) if options.report else measure(options)
    if options.json:
        print(json.dumps(raw, indent=1))
        return
    table = goal_table(raw, None if options.allocators else WELL_KNOWN)
    if options.markdown:
        print_markdown(raw, table)
    else:
        make_console().print(rich_table(table))


if __name__ == "__main__":
    main()
