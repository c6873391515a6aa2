"""The table of bench/large: one line a goal, what was to be reached beside what was."""

from .allocators import OURS
from .goals import WORKS
from .tables import VERDICTS, Cell, Table


def short_number(value):
    """Three digits that matter, and no fraction of a large number."""
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    if value == round(value):
        return f"{value:.0f}"
    return f"{value:.3g}"


def value_text(goal, value):
    if goal["figure"] == WORKS:
        return "works"
    unit = goal["unit"]
    number = short_number(value) if unit != "×" else f"{value:.2f}"
    return f"{number} {unit}".strip()


def allocator_cell(row, judged, name):
    if name in row["failures"]:
        return Cell(row["failures"][name], "behind")
    if name not in judged["values"]:
        return Cell("-")
    return Cell(value_text(judged["goal"], judged["values"][name]))


def best_text(row, judged, peers):
    """The best peer with its value; where working is all that counts, how many peers do."""
    if judged["goal"]["figure"] == WORKS:
        measured = [name for name in peers if name in judged["values"]]
        return f"{len(measured)} of {len(peers)} work"
    best = judged["best"]
    if best is None:
        return "none works" if row["failures"] else "-"
    value = judged["values"][best]
    equals = sum(judged["values"].get(name) == value for name in peers) - 1
    more = f" +{equals}" if equals else ""
    return f"{best}{more} {value_text(judged['goal'], value)}"


def goal_line(row, judged, peers, columns, is_first):
    ours = allocator_cell(row, judged, OURS)
    if judged["ratio"] is not None:
        ours = Cell(f"{ours.text} ({judged['ratio']:.2f})")
    return [Cell(row["name"] if is_first else ""), Cell(judged["goal"]["reach"]), ours,
            Cell(best_text(row, judged, peers)),
            *(allocator_cell(row, judged, name) for name in columns),
            VERDICTS[judged["reached"]]]


def goal_table(raw, columns):
    """columns: the peers with a column of their own; None for all that were measured."""
    peers = [one["name"] for one in raw["allocators"] if one["name"] != OURS]
    columns = [name for name in peers if columns is None or name in columns]
    verdicts = [judged["reached"] for row in raw["rows"] for judged in row["goals"]]
    table = Table(
        "Large memory",
        f"{verdicts.count(True)} reached, {verdicts.count(False)} missed. Figures with a fixed "
        f"bound are of the worst pass. Times are processor time: the best of all peers is chosen "
        f"on the odd passes, shown are medians of the even ones and in brackets the ratio to it. "
        f"+n: n more peers have the best one's figure.",
        ["row", "to reach", OURS, "best peer", *columns, "verdict"], left=2)
    for row in raw["rows"]:
        table.rows += [goal_line(row, judged, peers, columns, number == 0)
                       for number, judged in enumerate(row["goals"])]
    return table
