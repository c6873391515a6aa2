"""The pictures of a report, as SVG text to embed."""

import io

import matplotlib
from matplotlib.figure import Figure

from .allocators import AGAIN, OURS

matplotlib.rcParams.update({
    "font.family": "DejaVu Sans", "font.size": 9, "svg.fonttype": "none",
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e4e4e4", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "axes.edgecolor": "#999999", "svg.hashsalt": "primalloc",
})

# One colour an allocator in every picture; ours stands out, the rest are muted but distinct.
COLOURS = {
    OURS: "#d6215b", AGAIN: "#f08cab", "glibc": "#555555", "mimalloc3": "#1f6fb4",
    "mimalloc2": "#74b0dd", "jemalloc": "#2e8b57", "tcmalloc": "#d08a00",
    "gperftools": "#e6bc5c", "snmalloc": "#7b52ab", "rpmalloc": "#00939b", "scudo": "#8c5a3c",
    "hardened": "#9a9a4a",
}
OTHER_COLOUR = "#888888"
RATIO_MOST = 4.0


def colour(name):
    return COLOURS.get(name, OTHER_COLOUR)


def svg_text(figure):
    """The figure as an <svg> element without the XML head that HTML does not want."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg"):]


def plain_log_axis(axis, ticks):
    """A logarithmic axis with the given ticks as plain numbers."""
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def corner_plot(analysis):
    """Time against memory, geometric means over all rows: the corner below 1 and 1 is the goal."""
    figure = Figure(figsize=(7.2, 5.2))
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    for name in analysis.names:
        time, rss = analysis.mean(name, "time"), analysis.mean(name, "rss")
        if time is None or rss is None:
            continue
        ours = name in (OURS, AGAIN)
        axes.errorbar(time.value, rss.value, fmt="o", markersize=10 if ours else 7,
                      xerr=[[time.value - time.low], [time.high - time.value]],
                      yerr=[[rss.value - rss.low], [rss.high - rss.value]],
                      color=colour(name), elinewidth=1, alpha=0.9)
        axes.annotate(name, (time.value, rss.value), xytext=(8, 5), textcoords="offset points",
                      color=colour(name), fontweight="bold" if ours else "normal")
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    left, bottom = min(left, 0.88), min(bottom, 0.88)
    axes.set_xlim(left, right * 1.15)
    axes.set_ylim(bottom, top)
    axes.axvspan(left, 1.0, ymax=1, color="#d6215b", alpha=0.05, linewidth=0)
    axes.axhspan(bottom, 1.0, color="#d6215b", alpha=0.05, linewidth=0)
    ticks = [0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10]
    plain_log_axis(axes.xaxis, [tick for tick in ticks if left <= tick <= right * 1.15])
    plain_log_axis(axes.yaxis, [tick for tick in ticks if bottom <= tick <= top])
    axes.set_xlabel("time, geometric mean of the ratio to each row's best peer")
    axes.set_ylabel("peak RSS, the same")
    return svg_text(figure)


def rows_plot(analysis, metric):
    """One line a row: a dot an allocator, ours with the bounds of its ratio, 1 the best peer."""
    rows = [row["name"] for row in analysis.rows if analysis.comparisons[row["name"], metric]]
    figure = Figure(figsize=(8.4, 0.9 + 0.23 * len(rows)))
    axes = figure.add_subplot()
    axes.set_xscale("log")
    labelled = set()
    for y, row in enumerate(rows):
        comparison = analysis.comparisons[row, metric]
        for name, ratio in comparison.ratios.items():
            if name in (OURS, AGAIN):
                continue
            label = None if name in labelled else name
            labelled.add(name)
            axes.plot(min(ratio.value, RATIO_MOST), y, "o", markersize=4, color=colour(name),
                      alpha=0.75, label=label, markeredgewidth=0)
        ours = comparison.ratios.get(OURS)
        if ours:
            label = None if OURS in labelled else OURS
            labelled.add(OURS)
            axes.barh(y, ours.value - 1, left=1, height=0.55, color=colour(OURS), alpha=0.25)
            axes.errorbar(ours.value, y, xerr=[[max(0.0, ours.value - ours.low)],
                                               [max(0.0, ours.high - ours.value)]],
                          fmt="D", markersize=5, color=colour(OURS), label=label, zorder=5)
    axes.axvline(1.0, color="#333333", linewidth=1)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    least = min(ratio.value for row in rows
                for ratio in analysis.comparisons[row, metric].ratios.values())
    left = min(0.7, least) * 0.95
    axes.set_xlim(left, RATIO_MOST * 1.05)
    plain_log_axis(axes.xaxis, [tick for tick in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1, 1.2, 1.5,
                                                  2, 3, 4) if tick >= left])
    axes.tick_params(axis="x", top=True, labeltop=True)
    axes.set_xlabel(f"ratio to the row's best peer (dots at {RATIO_MOST:g} are at it or beyond)")
    # The padding, in font sizes, leaves room for the labels of the upper axis.
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1), borderaxespad=2.5, ncols=5,
                frameon=False, fontsize=8)
    return svg_text(figure)


def size_text(size):
    return f"{size // 1024} KiB" if size >= 1024 else f"{size} B"


def line_plot(path, title, labels, axis_label, lines, unit):
    """A line for each entry of `lines` over evenly spaced labels, as a PNG file."""
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    for name, values in reversed(lines.items()):
        ours = name == OURS
        heights = [float("nan") if value is None else value for value in values]
        axes.plot(range(len(labels)), heights, "o-", markersize=4, label=name,
                  linewidth=2.4 if ours else 1.3, color=colour(name), zorder=5 if ours else 2)
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xticks(range(len(labels)), labels, fontsize=8)
    axes.set_xlabel(axis_label)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="center left", bbox_to_anchor=(1, 0.5),
                frameon=False, fontsize=8)
    figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
