"""The experiments of bench/curves: what a comparison of whole programs does not show.

Each function measures one and returns what curves.json keeps of it. Counts run two at a time, as
load does not change them; times run alone, all allocators interleaved.
"""

import random
import re
import statistics
from concurrent.futures import ThreadPoolExecutor

from .allocators import Allocator
from .counting import call_lengths, first_level_misses, sections
from .environment import BenchError
from .goals import figures_of
from .rows import WORKLOADS, missing_program, prepare_row
from .trial import run_trial

# Of bench/workloads.
PROGRAMS = ("live-objects", "latency", "call-lengths", "touch-turns")
# The same accesses to one array, with no allocator in between.
ARRAY = "no allocator"
TIMES = ("build", "replace", "drop")
SCENES = {
    "churn": ("churn", "2000", "10000"),
    "bulk": ("bulk", "2000"),
    "after a pause": ("idle", "2000", "2000", "2"),
    "threads": ("threads", "2000"),
}
TIMEOUT_S = 300.0
FIGURE = re.compile(r"^ +(purge_calls|purged_bytes|needed_again_bytes) +(\d+)", re.MULTILINE)


def program(name):
    return str(WORKLOADS / name)


def array_allocator():
    return Allocator(ARRAY, None, "", "the same accesses to one array")


def in_parallel(work, items, tell):
    """[work(*item)], two at a time; what a program can't do is told and left out as None."""
    def attempt(item):
        try:
            return work(*item)
        except BenchError as error:
            tell(str(error))
            return None
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(attempt, items))


def growth(allocators, live_counts, operations, tell):
    """[{allocator, live, build, replace, drop}]: first-level misses of data for each object.

    What a program does the first time (its output, say) is in a section of its own.
    """
    def count(allocator, live):
        source = "array" if allocator.name == ARRAY else "malloc"
        tell(f"growth: {live:,} objects, {allocator.name}")
        parts = sections([program("live-objects"), str(live), str(operations),
                          f"--from={source}"], allocator)
        built, replaced, dropped = map(first_level_misses, parts[1:4] if len(parts) > 3
                                       else parts[:3])
        return {"allocator": allocator.name, "live": live, "build": built / live,
                "replace": replaced / operations, "drop": dropped / live}
    wanted = [(one, live) for live in sorted(live_counts, reverse=True) for one in allocators]
    return [found for found in in_parallel(count, wanted, tell) if found]


def figures(words, allocator, scratch, tell):
    """What a workload prints, or None where it fails."""
    outcome = run_trial(words, allocator.assignments(), scratch, TIMEOUT_S)
    if outcome.failure:
        tell(f"{' '.join(words)} under {allocator.name}: {outcome.failure}")
        return None
    return figures_of(outcome)


def interleaved(points, passes, seed, measure):
    """[{pass, **measure(*point)}] in an order shuffled anew for each pass."""
    results = []
    for number in range(1, passes + 1):
        order = list(points)
        random.Random(f"{seed}/{number}").shuffle(order)
        results += [{"pass": number, **found} for point in order
                    if (found := measure(number, *point))]
    return results


def threads(allocators, thread_counts, operations, passes, seed, scratch, tell):
    """[{pass, allocator, threads, ns, cpu_ns, working_kib, idle_kib}]; a second after the last free
    the idle size is taken in the first pass only."""
    def measure(number, threads_count, allocator):
        source = "array" if allocator.name == ARRAY else "malloc"
        tell(f"threads: pass {number}, {threads_count}, {allocator.name}")
        found = figures([program("live-objects"), "256", str(operations),
                         f"--threads={threads_count}", f"--from={source}", "--largest=1024",
                         f"--rest={1000 if number == 1 else 0}"], allocator, scratch, tell)
        return found and {
            "allocator": allocator.name, "threads": threads_count,
            "ns": found["ns_per_operation"], "cpu_ns": found["cpu_ns_per_operation"],
            "working_kib": found["working_kib"],
            "idle_kib": found["idle_kib"] if number == 1 else None}
    points = [(count, one) for count in thread_counts for one in allocators]
    return interleaved(points, passes, seed, measure)


def latency(allocators, operations, passes, seed, scratch, tell):
    """[{pass, allocator, malloc_p50_ns, ...}] with eight threads."""
    def measure(number, allocator):
        tell(f"latency: pass {number}, {allocator.name}")
        found = figures([program("latency"), "8", str(operations)], allocator, scratch, tell)
        return found and {"allocator": allocator.name} | {
            name: value for name, value in found.items() if name.endswith("_ns")}
    return interleaved([(one,) for one in allocators], passes, seed, measure)


def calls(allocators, tell):
    """[{allocator, scene, call, count, median, p99, longest}]: instructions of single calls."""
    def count(allocator, scene):
        tell(f"longest calls: {scene}, {allocator.name}")
        lengths = call_lengths([program("call-lengths"), *SCENES[scene]], allocator)
        return [{"allocator": allocator.name, "scene": scene, "call": call, "count": len(found),
                 "median": statistics.median(found), "longest": max(found),
                 "p99": sorted(found)[len(found) * 99 // 100]}
                for call, found in lengths.items()]
    wanted = [(one, scene) for scene in reversed(SCENES) for one in allocators]
    return [line for found in in_parallel(count, wanted, tell) if found for line in found]


def page_price_us(scratch):
    """What a page costs that is given back and needed again, on this machine: processor time of
    libc's malloc and free of 64 MiB that are written, which does just that with each of them."""
    libc = Allocator("glibc", None, "", "")
    found = figures([program("touch-turns"), "--kib=65536", "--turns=20"], libc, scratch, print)
    if not found or not found["faults_per_turn"]:
        raise BenchError("the price of a page can't be measured: touch-turns had no fault")
    return found["cpu_us_per_turn"] / found["faults_per_turn"]


def pages(rows, allocator, passes, scratch, tell):
    """[{pass, row, wall_s, purge_calls, purged_bytes, ...}] of the exit statistics, all processes
    of a row."""
    results = []
    for number, row in ((number, row) for number in range(1, passes + 1) for row in rows):
        tell(f"pages given back: pass {number}, {row.name}")
        if missing_program(row, scratch):
            continue
        prepare_row(row, scratch)
        assignments = [*row.assignments(scratch), *allocator.assignments(),
                       "PRIMALLOC_SHOW_STATS=1"]
        outcome = run_trial(row.words(scratch), assignments, scratch, TIMEOUT_S)
        found = FIGURE.findall(outcome.output)
        if outcome.failure or not found:
            tell(f"{row.name} printed no statistics")
            continue
        sums = {}
        for name, value in found:
            sums[name] = sums.get(name, 0) + int(value)
        results.append({"pass": number, "row": row.name,
                        "wall_s": outcome.figures["wall_us"] / 1e6, **sums})
    return results
