"""The pictures of a report."""

import math

from .allocators import AGAIN, OURS
from .svg import Picture, Scale, colour, has_colour, name_colour, place_labels, plain, text_width

RATIO_MOST = 4.0
WIDTH = 860


def axes(picture, across, up, across_label, up_label):
    """Grid, ticks and labels; `up` runs from the bottom to the top."""
    for tick in across.ticks():
        x = across(tick)
        picture.line(x, up.start, x, up.end)
        picture.text(x, up.start + 17, plain(tick), "middle", "var(--faint)", 11)
    for tick in up.ticks():
        y = up(tick)
        picture.line(across.start, y, across.end, y)
        picture.text(across.start - 8, y + 4, plain(tick), "end", "var(--faint)", 11)
    picture.text((across.start + across.end) / 2, up.start + 38, across_label, "middle",
                 "var(--faint)")
    picture.text(16, (up.start + up.end) / 2, up_label, "middle", "var(--faint)", turn=-90)


def overall(analysis):
    """[(name, mean of time, mean of RSS)] of all that have both; ours last, to be on top."""
    found = [(name, analysis.mean(name, "time"), analysis.mean(name, "rss"))
             for name in analysis.names]
    found = [one for one in found if one[1] and one[2]]
    return sorted(found, key=lambda one: (one[0] == OURS, one[0] == AGAIN))


def extent(ratio):
    """The value, and its bounds where it has some: a scale has room for them all."""
    return [one for one in (ratio.value, ratio.low, ratio.high) if not math.isnan(one)]


def corner_plot(analysis):
    """Time against memory, geometric means over all rows: the corner below 1 and 1 is the goal."""
    means = overall(analysis)
    picture = Picture(WIDTH, 520, "Time against memory")
    times = [one for _, time, _ in means for one in extent(time)]
    sizes = [one for _, _, rss in means for one in extent(rss)]
    across = Scale(min(0.8, min(times) * 0.93), max(times) * 1.12, 66, WIDTH - 20)
    up = Scale(min(0.82, min(sizes) * 0.95), max(sizes) * 1.08, 466, 16)
    picture.rect(across.start, up(1), across(1) - across.start, up.start - up(1), "var(--corner)",
                 0.13)
    axes(picture, across, up, "time: geometric mean of the ratio to each row's best peer",
         "peak memory: the same")
    picture.line(across(1), up.start, across(1), up.end, "var(--faint)", 1.2)
    picture.line(across.start, up(1), across.end, up(1), "var(--faint)", 1.2)
    for number, words in enumerate(("faster and smaller", "than the best")):
        picture.text(across.start + 8, up.start - 24 + 15 * number, words, fill="var(--ours)",
                     size=10.5)
    for name, time, rss in means:
        draw_spread(picture, across, up, time, rss, colour(name))
        picture.dot(across(time.value), up(rss.value), 8 if name == OURS else 6, colour(name),
                    hint=f"{name}: time {time.value:.2f}, memory {rss.value:.2f}")
    labelled = [one for one in reversed(means) if one[0] != AGAIN]
    points = [(across(time.value), up(rss.value), name) for name, time, rss in labelled]
    for (x, y, anchor), (_, _, name) in zip(place_labels(points, 13), points):
        picture.text(x, y, name, anchor, name_colour(name), 14 if name == OURS else 12,
                     700 if name == OURS else 500)
    return picture


def draw_spread(picture, across, up, time, rss, stroke):
    if not math.isnan(time.low):
        picture.line(across(time.low), up(rss.value), across(time.high), up(rss.value), stroke)
    if not math.isnan(rss.low):
        picture.line(across(time.value), up(rss.low), across(time.value), up(rss.high), stroke)


def bar_plot(analysis, metric, title):
    """A bar an allocator, from the best, with its bounds."""
    means = sorted(((name, mean) for name in analysis.names
                    if (mean := analysis.mean(name, metric))), key=lambda one: one[1].value)
    row, top, left = 30, 34, 128
    picture = Picture(WIDTH, top + row * len(means) + 30, title)
    high = max(max(extent(mean)) for _, mean in means) * 1.07
    across = Scale(0, max(high, 1.1), left, WIDTH - 60, is_log=False)
    for tick in across.ticks():
        picture.line(across(tick), top - 8, across(tick), top + row * len(means))
        picture.text(across(tick), top - 14, plain(tick), "middle", "var(--faint)", 11)
    for number, (name, mean) in enumerate(means):
        y = top + row * number
        ours = name == OURS
        picture.text(left - 10, y + 17, name, "end", name_colour(name), 12.5, 700 if ours else 500)
        picture.rect(left, y + 4, across(mean.value) - left, row - 11, colour(name),
                     1 if ours else 0.62, 3, f"{name}: {mean.value:.3f}, {mean.count} rows")
        if not math.isnan(mean.low):
            picture.line(across(mean.low), y + 13.5, across(mean.high), y + 13.5, "var(--ink)", 2)
        picture.text(across(max(extent(mean))) + 8, y + 18, f"{mean.value:.2f}",
                     weight=700 if ours else 400)
    picture.line(across(1), top - 8, across(1), top + row * len(means), "var(--ink)", 1.2)
    picture.text(across(1) + 5, top + row * len(means) + 16,
                 "1 = the best peer of each row", fill="var(--faint)", size=11)
    return picture


def rows_plot(analysis, metric, title):
    """One line a row: a dot an allocator, ours with the bounds of its ratio, 1 the best peer."""
    rows = [row["name"] for row in analysis.rows if analysis.comparisons[row["name"], metric]]
    step, top, left = 19, 84, 158
    ratios = {row: analysis.comparisons[row, metric].ratios for row in rows}
    least = min(min(extent(ratio)) if name == OURS else ratio.value
                for found in ratios.values() for name, ratio in found.items())
    across = Scale(min(0.7, least) * 0.95, RATIO_MOST * 1.04, left, WIDTH - 16)
    picture = Picture(WIDTH, top + step * len(rows) + 34, title)
    bottom = top + step * len(rows)
    draw_legend(picture, [name for name in analysis.names if name != AGAIN], left, 16)
    for tick in across.ticks(12):
        picture.line(across(tick), top - 6, across(tick), bottom)
        for y in (top - 12, bottom + 16):
            picture.text(across(tick), y, plain(tick), "middle", "var(--faint)", 11)
    picture.line(across(1), top - 6, across(1), bottom, "var(--ink)", 1.2)
    for number, row in enumerate(rows):
        y = top + step * number + step / 2
        if number % 2 == 0:
            picture.rect(0, y - step / 2, WIDTH, step, "var(--wash)", 0.6)
        picture.text(left - 10, y + 4, row, "end", size=11.5)
        draw_row(picture, across, y, row, ratios[row])
    picture.text(WIDTH - 16, bottom + 30, f"dots at {RATIO_MOST:g} are there or beyond", "end",
                 "var(--faint)", 10)
    return picture


def draw_row(picture, across, y, row, ratios):
    for name, ratio in ratios.items():
        if name not in (OURS, AGAIN):
            picture.dot(across(min(ratio.value, RATIO_MOST)), y, 3.6, colour(name), 0.8,
                        f"{row}, {name}: {ratio.value:.2f}")
    ours = ratios.get(OURS)
    if not ours:
        return
    if AGAIN in ratios:
        picture.dot(across(min(ratios[AGAIN].value, RATIO_MOST)), y, 4.5, colour(AGAIN), 0.9,
                    f"{row}, the control: {ratios[AGAIN].value:.2f}")
    if not math.isnan(ours.low):
        picture.line(across(min(ours.low, RATIO_MOST)), y, across(min(ours.high, RATIO_MOST)), y,
                     colour(OURS), 2.2)
    picture.dot(across(min(ours.value, RATIO_MOST)), y, 5.2, colour(OURS),
                hint=f"{row}, primalloc: {ours.value:.3f}")


def draw_legend(picture, names, left, y):
    """Dots with names, in as many lines as it takes; how many there were."""
    x, lines = left, 1
    for name in names:
        width = text_width(name) + 26
        if x + width > picture.width - 10:
            x, y, lines = left, y + 18, lines + 1
        picture.dot(x + 5, y - 4, 5, colour(name))
        picture.text(x + 14, y, name, weight=700 if name == OURS else 400)
        x += width
    return lines


def size_text(size):
    return f"{size / 1024:.4g} KiB" if size >= 1024 else f"{size} B"


def line_plot(title, labels, across_label, lines, up_label, is_log=False, width=WIDTH // 2 - 10,
              bound=None):
    """A line for each entry of `lines` over evenly spaced labels; None where a value is missing.
    `bound`: (value, words) of a dashed line."""
    values = [value for line in lines.values() for value in line if value is not None]
    values += [bound[0]] if bound else []
    values = [value for value in values if value > 0 or not is_log] or [1]
    picture = Picture(width, 316, title)
    legend = draw_legend(picture, list(lines), 56, 40)
    low, high = (min(values) * 0.9, max(values) * 1.1) if is_log else (0, max(values) * 1.08 or 1)
    across = Scale(0, max(1, len(labels) - 1), 62, width - 30, is_log=False)
    up = Scale(low, high, 264, 34 + 18 * legend, is_log)
    picture.text(12, 18, title, size=13, weight=700)
    for tick in up.ticks(6):
        picture.line(across.start, up(tick), across.end, up(tick))
        picture.text(across.start - 8, up(tick) + 4, plain(tick), "end", "var(--faint)", 11)
    for number, label in enumerate(labels):
        picture.text(across(number), up.start + 17, label, "middle", "var(--faint)", 10.5)
    picture.text((across.start + across.end) / 2, up.start + 38, across_label, "middle",
                 "var(--faint)", 11.5)
    picture.text(14, (up.start + up.end) / 2, up_label, "middle", "var(--faint)", 11.5, turn=-90)
    if bound:
        picture.line(across.start, up(bound[0]), across.end, up(bound[0]), "var(--ink)", 1.2, "5 4")
        picture.text(across.end, up(bound[0]) - 5, bound[1], "end", "var(--ink)", 10.5)
    for name, line in sorted(lines.items(), key=lambda one: one[0] == OURS):
        points = [(across(number), up(value), value) for number, value in enumerate(line)
                  if value is not None and (value > 0 or not is_log)]
        picture.path([(x, y) for x, y, _ in points], colour(name), 2.8 if name == OURS else 1.5,
                     "" if has_colour(name) else "5 4")
        for x, y, value in points:
            picture.dot(x, y, 4 if name == OURS else 2.8, colour(name),
                        hint=f"{name}: {value:.4g}")
    return picture
