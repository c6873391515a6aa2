"""The tables of a report, once, for the terminal, Markdown and HTML to draw."""

import math
from dataclasses import dataclass, field

from .allocators import AGAIN, OURS
from .analysis import BEHIND

METRIC_TITLES = {"time": "time", "rss": "peak RSS"}
# Metric -> (title, unit, factor from what is kept, digits).
ABSOLUTE = {
    "time": ("Time", "s; for rates the seconds of 10^6 units", 1.0, 3),
    "rss": ("Peak resident memory", "MiB, the largest process", 1 / 1024, 1),
    "cpu": ("CPU time", "s, user and system, all processes", 1.0, 3),
    "faults": ("Minor page faults", "all processes", 1.0, 0),
}


@dataclass
class Cell:
    """What stands in a field; `mark` is "", "best", "ahead" or "behind"; `sort` orders columns."""
    text: str
    mark: str = ""
    sort: float | None = None


# Whether a goal was reached, None where that is not decided.
VERDICTS = {True: Cell("reached", "ahead"), False: Cell("missed", "behind"), None: Cell("-")}


@dataclass
class Table:
    title: str
    note: str
    header: list
    rows: list = field(default_factory=list)
    left: int = 1  # so many columns at the left are text
    wraps: bool = False  # whether they are sentences, which take several lines


def ratio_mark(ratio):
    """ahead: surely below 1; behind: surely above what counts as left behind; without bounds
    neither is sure."""
    if ratio.high < 1.0:
        return "ahead"
    return "behind" if ratio.low > BEHIND else ""


def mean_cell(mean):
    if mean is None:
        return Cell("-")
    return Cell(f"{mean.value:.3f}", ratio_mark(mean), mean.value)


def mark_least(cells):
    """Mark the least number of a list of cells, wherever it stands."""
    least = min((cell.sort for cell in cells if cell.sort is not None), default=None)
    for cell in cells:
        if cell.sort is not None and cell.sort == least:
            cell.mark = "best"


def overall_table(analysis):
    """One line an allocator: geometric means over all rows and over each group, and wins."""
    table = Table(
        "Overall",
        "Geometric means of the ratio to the best peer of each row: below 1.000 beats even the "
        "best peers. A row's best peer is chosen on the odd passes and compared on the even ones; "
        "95 % bounds are drawn from these; a row without, as where its best peer was too far "
        "behind in time to run on, adds its value to a mean and no spread."
        f"{analysis.bounds_note()}",
        ["allocator", "version", "time", "time 95 %"]
        + [f"time {group}" for group in analysis.groups]
        + ["CPU", "peak RSS", "RSS 95 %"] + [f"RSS {group}" for group in analysis.groups]
        + ["minor faults", "time wins", "RSS wins", "rows"])
    versions = {one["name"]: one["version"] for one in analysis.raw["allocators"]}
    for name in analysis.names:
        time, rss = analysis.mean(name, "time"), analysis.mean(name, "rss")
        if time is None:
            continue
        table.rows.append(
            [Cell(name), Cell(versions[name]), mean_cell(time), bounds_cell(time)]
            + [mean_cell(analysis.mean(name, "time", group)) for group in analysis.groups]
            + [mean_cell(analysis.mean(name, "cpu")), mean_cell(rss), bounds_cell(rss)]
            + [mean_cell(analysis.mean(name, "rss", group)) for group in analysis.groups]
            + [mean_cell(analysis.mean(name, "faults"))]
            + [Cell("" if name == AGAIN else str(analysis.wins(name, metric)))
               for metric in ("time", "rss")] + [Cell(str(time.count))])
    return table


def bounds_cell(ratio):
    return Cell("-" if math.isnan(ratio.low) else f"{ratio.low:.2f}-{ratio.high:.2f}")


def rows_table(analysis, metric):
    """One line a row: primalloc beside the row's best peer, with the bounds of the ratio."""
    title, unit, factor, digits = ABSOLUTE[metric]
    table = Table(
        f"{title}: primalloc and each row's best peer",
        f"In {unit}. \"again\" is the same library entered a second time: how far it is from the "
        f"column before is what this machine can't tell apart.",
        ["row", "group", "primalloc", "best peer", "of", "ratio", "95 %", "again"])
    for row in analysis.rows:
        comparison = analysis.comparisons[row["name"], metric]
        if not comparison or OURS not in comparison.ratios:
            continue
        ratio, again = comparison.ratios[OURS], comparison.ratios.get(AGAIN)
        scale = unit_scale(row, metric, factor)
        table.rows.append([
            Cell(row["name"]), Cell(row["group"]),
            Cell(f"{comparison.medians[OURS] * scale:.{digits}f}"),
            Cell(f"{comparison.medians[comparison.best] * scale:.{digits}f}"),
            Cell(comparison.best),
            Cell(f"{ratio.value:.3f}", ratio_mark(ratio), ratio.value),
            bounds_cell(ratio), Cell(f"{again.value:.3f}" if again else "-")])
    return table


def unit_scale(row, metric, factor):
    """A rate's score is the time of one unit: shown for a million of them."""
    return 1e6 if metric == "time" and row["score"] != "time" else factor


def absolute_table(analysis, metric):
    """One line a row, one column an allocator: medians of the even passes."""
    title, unit, factor, digits = ABSOLUTE[metric]
    names = [name for name in analysis.names if name != AGAIN]
    table = Table(title, f"Medians of the even passes, {unit}; the least of a row is marked.",
                  ["row", *names])
    for row in analysis.rows:
        comparison = analysis.comparisons[row["name"], metric]
        scale = unit_scale(row, metric, factor)
        cells = []
        for name in names:
            if comparison and name in comparison.medians:
                value = comparison.medians[name] * scale
                cells.append(Cell(f"{value:.{digits}f}", "", value))
            else:
                reason = analysis.failures.get((row["name"], name), "-")
                cells.append(Cell(reason.partition(":")[0], "behind" if reason != "-" else ""))
        mark_least(cells)
        table.rows.append([Cell(row["name"]), *cells])
    return table


def ratio_table(analysis, metric):
    """One line a row, one column an allocator: the ratio to the row's best peer."""
    table = Table(f"Ratio to each row's best peer: {METRIC_TITLES[metric]}",
                  "1.00 stands for the peer that was best on the odd passes.",
                  ["row", *analysis.names])
    for row in analysis.rows:
        comparison = analysis.comparisons[row["name"], metric]
        if not comparison:
            continue
        cells = []
        for name in analysis.names:
            ratio = comparison.ratios.get(name)
            cells.append(Cell(f"{ratio.value:.2f}", ratio_mark(ratio), ratio.value)
                         if ratio else Cell("-"))
        table.rows.append([Cell(row["name"]), *cells])
    return table


def not_first_table(analysis):
    """Rows where primalloc's time or memory is above that of a peer, the farthest first."""
    table = Table(
        "Where primalloc is not first",
        "Rows whose best peer has less; marked where that is sure by more than 5 %. Where the "
        "ratio is as near to 1 as it is to the control's, this machine can't tell who is first.",
        ["row", "metric", "best peer", "ratio", "95 %", "again"], left=3)
    for metric in ("time", "rss"):
        for row, comparison in analysis.not_first(metric):
            ratio, again = comparison.ratios[OURS], comparison.ratios.get(AGAIN)
            table.rows.append([Cell(row), Cell(METRIC_TITLES[metric]), Cell(comparison.best),
                               Cell(f"{ratio.value:.3f}", ratio_mark(ratio), ratio.value),
                               bounds_cell(ratio), Cell(f"{again.value:.3f}" if again else "-")])
    return table


def trouble_table(analysis):
    """Rows that were skipped, and programs that failed under an allocator."""
    table = Table("Not measured", "Left out of every mean.", ["row", "allocator", "reason"])
    for row, reason in analysis.raw["skipped"].items():
        table.rows.append([Cell(row), Cell("all"), Cell(reason)])
    for (row, name), reason in analysis.failures.items():
        table.rows.append([Cell(row), Cell(name), Cell(reason, "behind")])
    return table


def second_runs_table(analysis):
    """Programs that failed under an allocator, and did not when they were run again."""
    table = Table("Failed once", "The second run of the same pass ended well, and counts.",
                  ["row", "allocator", "pass", "reason"])
    for one in analysis.raw.get("second_runs", []):
        table.rows.append([Cell(one["row"]), Cell(one["allocator"]), Cell(str(one["pass_number"])),
                           Cell(one["reason"], "behind")])
    return table


def all_tables(analysis):
    """Everything that results.md and results.html show, in reading order; empty ones left out."""
    tables = [overall_table(analysis), not_first_table(analysis), trouble_table(analysis),
              second_runs_table(analysis)]
    if OURS in analysis.names:
        tables += [rows_table(analysis, metric) for metric in ("time", "rss")]
    tables += [ratio_table(analysis, metric) for metric in ("time", "rss")]
    tables += [absolute_table(analysis, metric) for metric in ABSOLUTE]
    return [table for table in tables if table.rows]
