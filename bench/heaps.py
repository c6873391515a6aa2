#!/usr/bin/env python3
"""Measure heaps of one's own beside mimalloc 3's, and what a snapshot of the statistics takes.

Instructions are counted by callgrind: they are exact, but the kernel's are not among them. Times
are processor time inside the loop; both libraries take turns, in an order shuffled for each pass,
and what is compared is the median of the passes' ratios. Two minutes.
"""

import argparse
import random
import statistics
import subprocess
import sys

from harness.command import above_zero, tidy_end
from harness.counting import check_valgrind, environment_of, section_dumps
from harness.environment import BenchError, enter_venv, helper
from instructions import cost_outside_program

PEER = "mimalloc3"
PASSES = 10
CYCLES, COUNTED_CYCLES = 200_000, 5_000
OBJECTS = 1_000_000
EMPTY_HEAPS = 10_000
SNAPSHOTS = 100


def program():
    return str(helper("heap_costs", "-fno-builtin", "-pthread", "-ldl"))


def figures(allocator, work, count):
    """{name: value} of what the program prints."""
    answer = subprocess.run([program(), work, str(count)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                            env=environment_of(allocator))
    if answer.returncode != 0:
        last = "\n".join(answer.stderr.strip().splitlines()[-3:])
        raise BenchError(f"heap_costs {work} fails under {allocator.name}: {last}")
    return {name: float(value) for name, value in map(str.split, answer.stdout.splitlines())}


def instructions(allocator, work, count):
    """Executed outside the program itself between its two section boundaries."""
    with section_dumps([program(), work, str(count)], allocator) as (_, dumps):
        return cost_outside_program(dumps[0], program())


def passes(trials, count, seed):
    """[{name: nanoseconds}] of several (name, allocator, work, count) that take turns."""
    results = []
    for number in range(count):
        order = list(trials)
        random.Random(f"{seed}/{number}").shuffle(order)
        results.append({name: figures(allocator, work, size)["cpu_ns"]
                        for name, allocator, work, size in order})
    return results


def ratio(results, name, other):
    ratios = [one[name] / one[other] for one in results]
    return statistics.median(ratios), f"{min(ratios):.3g} to {max(ratios):.3g}"


def median(results, name):
    return statistics.median(one[name] for one in results)


def cycle_rows(ours, peer, options):
    counts = {one.name: instructions(one, "cycle", COUNTED_CYCLES) / COUNTED_CYCLES
              for one in (ours, peer)}
    yield ("heap_new, 10 mallocs of 64 B, heap_destroy: instructions", f"<= {PEER}'s",
           f"{counts[ours.name]:.0f}", f"{PEER} {counts[peer.name]:.0f}",
           counts[ours.name] <= counts[peer.name])
    results = passes([(one.name, one, "cycle", CYCLES) for one in (ours, peer)],
                     options.passes, options.seed)
    middle, spread = ratio(results, ours.name, peer.name)
    yield ("the same: time", f"<= 1.0 of {PEER}'s", f"{middle:.3g} ({spread})",
           f"{median(results, ours.name):.0f} ns, {PEER} {median(results, peer.name):.0f} ns",
           middle <= 1.0)


def empty_row(ours, peer):
    sizes = {one.name: figures(one, "empty", EMPTY_HEAPS)["bytes"] for one in (ours, peer)}
    yield (f"resident bytes of an empty heap, of {EMPTY_HEAPS:,}", "<= 1024",
           f"{sizes[ours.name]:.0f}", f"{PEER} {sizes[peer.name]:.0f}", sizes[ours.name] <= 1024)


def destroy_rows(ours, peer, options):
    destroyed, one_by_one = (instructions(ours, work, OBJECTS) for work in ("destroy", "free"))
    share = destroyed / one_by_one
    yield (f"destroy a heap of {OBJECTS:,} blocks of 64 B: instructions, of freeing each",
           "<= 5 %", f"{share:.3%}", f"{destroyed:,} of {one_by_one:,}", share <= 0.05)
    trials = [("destroy", ours, "destroy", OBJECTS), ("free", ours, "free", OBJECTS),
              ("plain", ours, "free-plain", OBJECTS), ("peer", peer, "destroy", OBJECTS)]
    results = passes(trials, options.passes, options.seed)
    middle, spread = ratio(results, "destroy", "free")
    times = {name: median(results, name) / 1e6 for name, *_ in trials}
    yield ("the same: time", "<= 5 %", f"{middle:.1%}",
           f"{times['destroy']:.2f} ms of {times['free']:.1f} ms; ratios {spread}",
           middle <= 0.05)
    middle, spread = ratio(results, "destroy", "plain")
    yield ("the same, against freeing as many blocks of malloc: time", "", f"{middle:.1%}",
           f"of {times['plain']:.1f} ms; {PEER}'s destroy {times['peer']:.2f} ms", None)


def snapshot_rows(ours):
    taken = figures(ours, "snapshot", SNAPSHOTS)
    without = figures(ours, "no-snapshot", SNAPSHOTS)
    what = "prim_stats_get, 1 GiB in 1,048,576 blocks, 64 threads at work"
    for name, text in (("cpu", "processor time"),
                       ("unqueued", "elapsed, less waiting for a processor"),
                       ("elapsed", "elapsed")):
        middle, worst = (taken[f"{name}_{which}_us"] / 1e3 for which in ("median", "worst"))
        within = int(taken[f"{name}_within"])
        yield (f"{what}: {text}", "<= 5 ms", f"{middle:.2f} ms",
               f"median; {within} of {SNAPSHOTS} within 5 ms, the worst {worst:.2f} ms",
               worst <= 5)
    yield (f"waits of the 64 threads for anything, with {SNAPSHOTS} snapshots", "none for them",
           f"{taken['waits']:.0f}", f"without a snapshot {without['waits']:.0f}", None)


def measured_table(ours, peer, options):
    from harness.tables import VERDICTS, Cell, Table
    table = Table("Heaps and the snapshot", "", ["what", "to reach", "primalloc", "beside it", ""],
                  left=2)
    for part in (cycle_rows(ours, peer, options), empty_row(ours, peer),
                 destroy_rows(ours, peer, options), snapshot_rows(ours)):
        for what, goal, figure, beside, is_reached in part:
            print(f"{what}: {figure}", file=sys.stderr)
            table.rows.append([*map(Cell, (what, goal, figure, beside)), VERDICTS[is_reached]])
    return table


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=above_zero(int), default=PASSES, metavar="N",
                        help=f"of what compares times ({PASSES})")
    parser.add_argument("--seed", type=int, default=1, help="of the order of trials")
    parser.add_argument("--markdown", action="store_true",
                        help="print the machine's facts and the table in Markdown")
    options = parser.parse_args()
    enter_venv()
    from harness.allocators import OURS, named_allocators, serving
    from harness.machine import machine_facts
    from harness.markdown import fact_lines, markdown_table
    from harness.terminal import make_console, rich_table
    with tidy_end():
        check_valgrind()
        ours, peer = serving(named_allocators([OURS, PEER]))
        facts = machine_facts()
        table = measured_table(ours, peer, options)
    if options.markdown:
        raw = {"machine": facts, "passes": options.passes, "seed": options.seed}
        facts = [*fact_lines(raw), f"- peer: {peer.name} {peer.version} ({peer.source})"]
        print("\n\n".join(["# Heaps", "\n".join(facts), markdown_table(table)]))
    else:
        make_console().print(rich_table(table))


if __name__ == "__main__":
    main()
