"""What primalloc is to reach, line by line, beside what was measured and what the control says.

The control is primalloc entered a second time: a figure that differs from it by less than it does
from itself says nothing. Counts of misses are exact; their control is the count again. Those of the
longest calls are not: what is done after a pause, and in which call, depends on time.
"""

import math
from dataclasses import dataclass

from .allocators import AGAIN, OURS
from .analysis import mean_of, median, ratio_of
from .curves import MISSES_ASKED, THREAD_KIB_ASKED, Curves
from .experiments import ARRAY, SCENES
from .tables import VERDICTS, Cell, Table

TIME_MEAN, RSS_MEAN = 0.93, 1.05
TIME_ROW = 1.05
RSS_ROW, RSS_ROW_KIB = 1.30, 1024
APPS_TIME, APPS_RSS = 0.98, 1.02
AS_LARGE, FAULTS_MEAN = 1.3, 1.0
FLAT, LONGEST = 1.3, 20_000
PAGES_PART = 0.01
LIVE_MOST, THREADS_MOST = 10_000_000, 512
EXACT, COUNTED_ONCE = "exact", "counted once"


@dataclass
class Line:
    """`reached` is None where it was not measured, or where too few passes give no bounds."""
    what: str
    reach: str
    measured: str
    control: str
    reached: bool | None


def bounded(mean):
    if mean is None:
        return "-"
    if math.isnan(mean.low):
        return f"{mean.value:.3f}"
    return f"{mean.value:.3f} ({mean.low:.2f}-{mean.high:.2f})"


def mean_line(what, most, mean_under):
    """A line on a geometric mean, which mean_under(allocator) gives."""
    ours, again = mean_under(OURS), mean_under(AGAIN)
    return Line(what, f"≤ {most:.2f}", bounded(ours), bounded(again),
                ours.value <= most if ours else None)


def time_above(one, name):
    """The lower bound of a row's ratio where it is above what is asked."""
    low = one.ratios[name].low
    return low if low > TIME_ROW else None


def rss_above(one, name):
    """The ratio of a row that is above what is asked."""
    ratio = one.ratios[name].value
    more_kib = one.medians[name] - one.medians[one.best]
    return ratio if ratio > RSS_ROW and more_kib > RSS_ROW_KIB else None


def rows_above(analysis, name, metric, above):
    """(how many of the rows that an allocator ran are above what is asked, and the worst; whether
    none is)."""
    ran = {row["name"]: one for row in analysis.rows
           if (one := analysis.comparisons[row["name"], metric]) and name in one.ratios}
    if not ran:
        return "-", None
    unbounded = [one.ratios[name].value for one in ran.values()
                 if metric == "time" and math.isnan(one.ratios[name].low)]
    if len(unbounded) == len(ran):
        return "too few passes for bounds", None
    found = {row: excess for row, one in ran.items() if (excess := above(one, name))}
    text, reached = "none", True
    if found:
        worst = max(found, key=found.get)
        text = (f"{len(found)} row{'s' if len(found) > 1 else ''}, the worst {worst} with "
                f"{found[worst]:.2f}")
        reached = False
    unsure = sum(value > TIME_ROW for value in unbounded)
    if unsure:
        text += f"; {unsure} above {TIME_ROW} without bounds"
        reached = reached and None
    return text, reached


def rows_line(analysis, what, metric, above):
    measured, reached = rows_above(analysis, OURS, metric, above)
    return Line(what, "none", measured, rows_above(analysis, AGAIN, metric, above)[0], reached)


def judge(line, is_kept, lacking):
    """A bound that was broken is missed; one that was kept is reached if nothing is lacking, which
    is named: a program that failed leaves no figure."""
    if lacking:
        line.measured += f"; without {', '.join(lacking)}"
    line.reached = is_kept and (None if lacking else True)


def comparable_faults(analysis, name):
    """The mean over rows of the ratio to the peer with the fewest faults among those that are not
    more than 1.3 times as large as primalloc; chosen on the odd passes, compared on the even."""
    ratios = []
    for row in (row["name"] for row in analysis.rows):
        own = analysis.half(row, OURS, "rss", 1)
        faults = {peer: median(half) for peer in analysis.peers
                  if own and (rss := analysis.half(row, peer, "rss", 1))
                  and median(rss) <= AS_LARGE * median(own)
                  and (half := analysis.half(row, peer, "faults", 1))}
        ours = analysis.half(row, name, "faults", 0)
        if faults and ours:
            best = min(faults, key=faults.get)
            ratios.append(ratio_of(ours, analysis.half(row, best, "faults", 0)))
    return mean_of(ratios)


def with_failures(analysis, line, group=None):
    """The line, missed where primalloc itself failed on a row, which no mean and no ratio has."""
    failed = [row["name"] for row in analysis.rows if group in (None, row["group"])
              and (row["name"], OURS) in analysis.failures]
    if failed:
        line.measured += f"; failed on {', '.join(failed)}"
        line.reached = False
    return line


def row_lines(analysis):
    def mean(metric, group=None):
        return lambda name: analysis.mean(name, metric, group)
    apps = [mean_line("real programs, time", APPS_TIME, mean("time", "apps")),
            mean_line("real programs, peak RSS", APPS_RSS, mean("rss", "apps"))]
    lines = [
        mean_line("time, geometric mean of the ratio to each row's best peer", TIME_MEAN,
                  mean("time")),
        rows_line(analysis, "rows whose time has its lower 95 % bound above 1.05 of the best peer",
                  "time", time_above),
        mean_line("peak RSS, geometric mean of the ratio to each row's thriftiest peer", RSS_MEAN,
                  mean("rss")),
        rows_line(analysis, "rows whose RSS is above 1.30 of the thriftiest peer and above it by "
                  "over 1 MiB", "rss", rss_above),
    ]
    faults = mean_line("minor faults, geometric mean of the ratio to the best peer that is not "
                       "more than 1.3 times as large", FAULTS_MEAN,
                       lambda name: comparable_faults(analysis, name))
    return [*(with_failures(analysis, line) for line in lines),
            *(with_failures(analysis, line, "apps") for line in apps),
            with_failures(analysis, faults)]


def growth_line(curves):
    line = Line("growth: first-level data misses in the life of an object, 1,000 to 10,000,000 "
                "live, against the same accesses without an allocator", f"≤ {MISSES_ASKED:.2f}",
                "-", "-", None)
    lives = curves.life_ratios(OURS)
    if lives:
        worst = max(lives, key=lives.get)
        line.measured = ", ".join(f"{ratio:.2f}" for _, ratio in sorted(lives.items()))
        line.measured += f"; the worst with {worst:,}"
        line.control = EXACT
        judge(line, lives[worst] <= MISSES_ASKED,
              [f"{live:,}" for live in sorted({LIVE_MOST, *curves.lives(ARRAY)} - lives.keys())])
    return line


def thread_lines(curves):
    flat = Line(f"1 to 512 threads{curves.on_cores('threads')}: processor time of an operation, "
                f"the most against the least", f"≤ {FLAT:.2f}", "-", "-", None)
    kib = Line("the same: RSS of a thread beyond what its live objects need",
               f"≤ {THREAD_KIB_ASKED} KiB", "-", "-", None)
    ours, again, bare = (curves.flatness(name) for name in (OURS, AGAIN, ARRAY))
    own, bare_times = (curves.by_threads(name, "cpu_ns") for name in (OURS, ARRAY))
    lacking = [f"{count} threads" for count in sorted({THREADS_MOST, *bare_times} - own.keys())]
    if ours and bare:
        flat.measured = f"{ours:.2f}; the same accesses without an allocator {bare:.2f}"
        flat.control = f"{again:.2f}" if again else "-"
        judge(flat, ours <= FLAT, lacking)
    extra, extra_again = curves.thread_kib(OURS), curves.thread_kib(AGAIN)
    if extra:
        last, most = max(extra), max(extra, key=extra.get)
        kib.measured = f"{extra[last]:.1f} KiB with {last}, the most {extra[most]:.1f} with {most}"
        kib.control = f"{extra_again[last]:.1f} KiB with {last}" if last in extra_again else "-"
        judge(kib, extra[most] <= THREAD_KIB_ASKED, lacking)
    return [flat, kib]


def latency_line(curves, call):
    line = Line(f"latency: 99.99th percentile of {call} with 8 threads, against the best peer",
                "≤ 1.00", "-", "-", None)
    found = curves.latency_ratios(f"{call}_p9999_ns")
    if found and OURS in found[1]:
        best, ratios = found
        line.measured = f"{ratios[OURS]:.2f} of {best}"
        line.control = f"{ratios[AGAIN]:.2f}" if AGAIN in ratios else "-"
        lost = curves.latency_passes_lost(OURS)
        judge(line, ratios[OURS] <= 1, [f"{lost} of the passes"] if lost else [])
    return line


def longest_line(curves):
    line = Line("the longest call up to 32 KiB, instructions", f"≤ {LONGEST:,}", "-", "-", None)
    calls = curves.calls_of(OURS)
    if calls:
        worst = max(calls, key=lambda one: one["longest"])
        line.measured = f"{worst['longest']:,}: {worst['call']}, {worst['scene']}"
        line.control = COUNTED_ONCE
        judge(line, worst["longest"] <= LONGEST,
              [scene for scene in SCENES if scene not in {one["scene"] for one in calls}])
    return line


def pages_line(curves, rows):
    line = Line("pages given back and needed again within a second: part of a row's time",
                "< 1 % on every row", "-", "-", None)
    parts = curves.page_parts()
    if parts:
        above = [one for one in parts if one.part >= PAGES_PART]
        bound = "" if curves.counts_needed_again else "at most "
        worst = parts[0]
        line.measured = (f"{bound}{worst.part:.1%} ({worst.row}); {len(above)} of {len(parts)} "
                         f"rows at 1 % or above")
        passes = curves.pages_passes
        line.control = COUNTED_ONCE if passes == 1 else f"medians of {passes}"
        lost = len({row["name"] for row in rows} - {one.row for one in parts})
        judge(line, not above, [f"{lost} of the rows"] if lost else [])
        if above and not curves.counts_needed_again:
            line.reached = None
    return line


def asked_lines(analysis, raw_curves):
    curves = Curves(raw_curves)
    return [*row_lines(analysis), growth_line(curves), *thread_lines(curves),
            latency_line(curves, "malloc"), latency_line(curves, "free"), longest_line(curves),
            pages_line(curves, analysis.rows)]


def asked_table(analysis, raw_curves):
    lines = asked_lines(analysis, raw_curves)
    reached = [line.reached for line in lines]
    table = Table(
        "What was asked, what was measured",
        f"{reached.count(True)} reached, {reached.count(False)} missed, {reached.count(None)} not "
        f"decided. In brackets 95 % bounds.{analysis.bounds_note()} The control is primalloc "
        "entered a second time; counts of misses are exact.",
        ["what", "to reach", "measured", "control", "verdict"], left=4, wraps=True)
    table.rows = [[Cell(line.what), Cell(line.reach), Cell(line.measured), Cell(line.control),
                   VERDICTS[line.reached]] for line in lines]
    return table
