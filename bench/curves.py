#!/usr/bin/env python3
"""Measure what rows of whole programs do not show, for the report of bench/run.py to include.

  growth    first-level data misses of an object with 1,000 to 10,000,000 live ones, beside
            the same accesses to one array (callgrind)
  threads   time of an operation and resident size of 1 to 512 threads
  latency   the 99.99th percentile of malloc and free in 8 threads
  calls     the instructions of the longest calls up to 32 KiB (lackey)
  pages     what each row of rows.toml gives back to the system (the library's own statistics)

Examples:
  bench/curves.py                        all, some 20 minutes; into build/bench-results
  bench/curves.py --only calls,latency   some; the others stay as they were measured before
"""

import argparse
import time
from pathlib import Path

from harness.allocators import WELL_KNOWN
from harness.command import make_folder, scratch_folder, tidy_end
from harness.environment import BUILD, build_workloads, enter_venv, write_json

EXPERIMENTS = ("growth", "threads", "latency", "calls", "pages")
COUNTED = {"growth", "calls"}
FILE = "curves.json"
LIVE = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
GROWTH_OPERATIONS = 256_000
THREADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
THREADS_OPERATIONS = 4_000_000
THREADS_PASSES = 3
LATENCY_OPERATIONS = 200_000
LATENCY_PASSES = 40
PAGES_PASSES = 3
# How much less a quick run does.
QUICK_DIVISOR = 10


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="A,B", help="some experiments")
    parser.add_argument("--allocators", metavar="A,B",
                        help="names, or NAME=PATH of a library; ;VARIABLE=VALUE adds a setting")
    parser.add_argument("--quick", action="store_true",
                        help="fewer objects, threads and passes: to see that it works")
    parser.add_argument("--seed", type=int, default=1, help="of the order of trials")
    parser.add_argument("--out", type=Path, default=BUILD / "bench-results", metavar="DIR",
                        help=f"where {FILE} goes, beside the results of bench/run.py")
    options = parser.parse_args()
    options.only = options.only.split(",") if options.only else list(EXPERIMENTS)
    for name in options.only:
        if name not in EXPERIMENTS:
            parser.error(f"there is no experiment {name}; there are {', '.join(EXPERIMENTS)}")
    return options


def tell(text):
    print(f"  {text}", flush=True)


def measure_one(name, every, options, scratch):
    """What curves.json keeps of one experiment."""
    from harness import experiments
    from harness.allocators import AGAIN, OURS
    from harness.rows import load_rows

    divisor = QUICK_DIVISOR if options.quick else 1
    once = [one for one in every if one.name != AGAIN]
    few = once if options.allocators else [one for one in once
                                           if one.name in (OURS, *WELL_KNOWN)]
    with_array = [experiments.array_allocator(), *few]
    if name == "growth":
        live = [count for count in LIVE if count <= max(LIVE) // divisor ** 2]
        return experiments.growth(with_array, live, GROWTH_OPERATIONS, tell)
    if name == "threads":
        counts = [count for count in THREADS if not options.quick or count in (1, 8, 512)]
        with_again = with_array + [one for one in every if one.name == AGAIN]
        return experiments.threads(with_again, counts, THREADS_OPERATIONS // divisor,
                                   1 if options.quick else THREADS_PASSES, options.seed, scratch,
                                   tell)
    if name == "latency":
        return experiments.latency(every, LATENCY_OPERATIONS // divisor,
                                   2 if options.quick else LATENCY_PASSES, options.seed, scratch,
                                   tell)
    if name == "calls":
        return experiments.calls(few, tell)
    rows = [row for row in load_rows() if row.quick or not options.quick]
    ours = [one for one in once if one.name == OURS]
    return {"page_price_us": experiments.page_price_us(scratch),
            "rows": experiments.pages(rows, ours[0], 1 if options.quick else PAGES_PASSES,
                                      scratch, tell) if ours else []}


def measure(options, curves):
    """Adds each wanted experiment to what was measured before."""
    from harness.allocators import chosen_allocators
    from harness.counting import check_valgrind
    from harness.machine import machine_facts

    build_workloads()
    if COUNTED.intersection(options.only):
        check_valgrind()
    every = chosen_allocators(options.allocators)
    for name in options.only:
        started = time.monotonic()
        facts = machine_facts()
        with scratch_folder("curves") as scratch:
            found = measure_one(name, every, options, Path(scratch))
        curves[name] = {"machine": facts, "quick": options.quick, "found": found}
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
        yield


def main():
    options = arguments()
    enter_venv()
    from harness.curves import read_curves
    path = options.out / FILE
    with tidy_end("interrupted; what was whole is kept"):
        make_folder(options.out)
        curves = read_curves(path)
        for _ in measure(options, curves):
            write_json(path, curves)
    print(f"{path}\nbench/run.py --report {options.out} draws it")


if __name__ == "__main__":
    main()
