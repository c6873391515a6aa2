#!/usr/bin/env python3
"""Draw TCMalloc's classic pictures of t-test1.

For each number of threads: million operations per second against the largest size. For each largest
size: million operations per second of CPU time against the number of threads. A line per allocator.
Whole passes over all points are interleaved and repeated while the time lasts; a point is the
median of its trials. trials.csv keeps every trial, graphs.html shows all pictures on one page.
"""

import argparse
import csv
import itertools
import random
import re
import statistics
import sys
import time
from pathlib import Path

from harness.command import above_zero, make_folder, numbers, scratch_folder, tidy_end
from harness.environment import BUILD, BenchError, build_workloads, enter_venv

SIZES = tuple(2 ** power for power in range(6, 18))
THREADS = (1, 2, 3, 4, 5, 8, 12, 16, 20)
MINUTES = 15.0
OPERATIONS = 600_000
OPERATIONS_LEAST = 60_000
# What a trial takes on a machine of two cores, to choose its length when time is short.
TRIAL_S = 0.3
TIMEOUT_S = 60.0
RATE = re.compile(r"([0-9.]+) operations/s")
FIELDS = ("pass", "threads", "largest_size", "allocator", "operations_per_s",
          "operations_per_cpu_s", "wall_s", "cpu_s", "peak_rss_kib")


def run_point(threads, size, allocator, operations, scratch):
    """One trial's row of trials.csv, or None when the program failed."""
    from harness.rows import WORKLOADS
    from harness.trial import run_trial
    each = operations // threads
    words = [str(WORKLOADS / "t-test1"), str(threads), str(threads), str(each), str(size)]
    outcome = run_trial(words, allocator.assignments(), scratch, TIMEOUT_S)
    found = RATE.search(outcome.output)
    if outcome.failure or not found:
        print(f"t-test1 with {threads} threads to {size} B under {allocator.name}: "
              f"{outcome.failure or 'no rate printed'}", file=sys.stderr)
        return None
    figures = outcome.figures
    cpu_s = (figures["user_us"] + figures["system_us"]) / 1e6
    return {"threads": threads, "largest_size": size, "allocator": allocator.name,
            "operations_per_s": float(found.group(1)),
            "operations_per_cpu_s": round(each * threads / max(cpu_s, 1e-3)),
            "wall_s": figures["wall_us"] / 1e6, "cpu_s": cpu_s,
            "peak_rss_kib": figures["peak_rss_kib"]}


def measure(options, allocators, scratch, writer, trials):
    """Passes while the time lasts, at least one; every trial goes to the writer and to `trials` at
    once."""
    from rich.progress import track
    points = list(itertools.product(options.threads, options.sizes, allocators))
    budget_s = options.minutes * 60
    share = budget_s / (len(points) * TRIAL_S)
    operations = int(max(OPERATIONS_LEAST, min(1.0, share) * OPERATIONS))
    started = time.monotonic()
    for number in itertools.count(1):
        pass_started = time.monotonic()
        random.Random(f"{options.seed}/{number}").shuffle(points)
        for threads, size, allocator in track(points, f"pass {number}", transient=True):
            trial = run_point(threads, size, allocator, operations, scratch)
            if trial:
                trials.append({"pass": number, **trial})
                writer.writerow(trials[-1])
        now = time.monotonic()
        if now - started + (now - pass_started) > budget_s:
            return


def medians(trials, field):
    """{(threads, size, allocator): the median of a field in millions}."""
    values = {}
    for trial in trials:
        point = (trial["threads"], trial["largest_size"], trial["allocator"])
        values.setdefault(point, []).append(trial[field] / 1e6)
    return {point: statistics.median(several) for point, several in values.items()}


def pictures(options, trials):
    """Both series of pictures; [(heading, note, [picture])]."""
    from harness.plots import line_plot, size_text
    names = list(dict.fromkeys(trial["allocator"] for trial in sorted(
        trials, key=lambda trial: trial["allocator"] != "primalloc")))
    speed, cpu_speed = (medians(trials, field)
                        for field in ("operations_per_s", "operations_per_cpu_s"))
    by_threads, by_size = [], []
    for threads in options.threads:
        lines = {name: [speed.get((threads, size, name)) for size in options.sizes]
                 for name in names}
        by_threads.append(line_plot(
            f"{threads} thread{'s' if threads > 1 else ''}",
            [size_text(size) for size in options.sizes], "largest size", lines,
            "million operations / s"))
    for size in options.sizes:
        lines = {name: [cpu_speed.get((threads, size, name)) for threads in options.threads]
                 for name in names}
        by_size.append(line_plot(
            f"sizes up to {size_text(size)}", [str(threads) for threads in options.threads],
            "threads", lines, "million operations / s of CPU time"))
    return [("Speed against the largest size", "One picture for each number of threads; higher is "
             "better.", by_threads),
            ("Speed per CPU time against threads", "One picture for each largest size; what a lock "
             "or a system call burns shows here even where another core hides it.", by_size)]


def draw(options, scratch):
    """Measure, and write trials.csv and the page; an interrupt keeps the trials that there are."""
    from harness.allocators import AGAIN, chosen_allocators
    from harness.html import graphs_page
    from harness.machine import machine_facts
    make_folder(options.out)
    build_workloads()
    chosen = [one for one in chosen_allocators(options.allocators)
              if options.allocators or one.name != AGAIN]
    facts = machine_facts()
    trials = []
    with open(options.out / "trials.csv", "w", newline="", buffering=1) as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        try:
            measure(options, chosen, scratch, writer, trials)
        except KeyboardInterrupt:
            print(f"interrupted; {len(trials)} trials are drawn", file=sys.stderr)
    if not trials:
        raise BenchError("not one trial of t-test1 succeeded")
    page = options.out / "graphs.html"
    page.write_text(graphs_page(facts, chosen, trials[-1]["pass"], pictures(options, trials)))
    print(f"{page}\n{options.out / 'trials.csv'}")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=above_zero(float), default=MINUTES,
                        help=f"({MINUTES:g})")
    parser.add_argument("--allocators", metavar="A,B", help="names, or NAME=PATH of a library")
    parser.add_argument("--threads", type=numbers, default=THREADS, metavar="A,B")
    parser.add_argument("--sizes", type=numbers, default=SIZES, metavar="A,B", help="in bytes")
    parser.add_argument("--seed", type=int, default=1, help="of the order of trials")
    parser.add_argument("--out", type=Path, default=BUILD / "graphs", metavar="DIR")
    return parser.parse_args()


def main():
    options = arguments()
    enter_venv()
    with tidy_end(), scratch_folder("graphs") as scratch:
        draw(options, Path(scratch))


if __name__ == "__main__":
    main()
