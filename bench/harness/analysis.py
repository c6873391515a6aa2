"""From samples to ratios: each allocator against the best peer of each row.

The best peer of a row is chosen on the odd passes (least median) and everybody is compared with it
on the even ones: choosing and comparing on the same numbers would favour whoever was lucky. Bounds
come from a bootstrap that draws whole passes, the same for both sides, because what disturbs a pass
disturbs both. A value below 1 beats the best peer; the best peer itself has exactly 1.
"""

from dataclasses import dataclass

import numpy as np

from .allocators import AGAIN, OURS

DRAWS = 2000
BOUNDS = (2.5, 97.5)
# A row is left behind where it is surely above this.
BEHIND = 1.05
# Bounds from fewer passes than this would be the passes themselves: none are given.
BOUNDED_FROM = 3
# In so many of a hundred cases bounds from so few compared passes hold the truth, whatever BOUNDS
# say: they are hardly wider than the passes themselves. From five on it is 94 and more.
HOLD_LESS = {3: 75, 4: 87}

METRICS = {
    "time": ("score_s",),
    "rss": ("peak_rss_kib",),
    "cpu": ("user_s", "system_s"),
    "faults": ("minor_faults",),
}
# Below these a ratio says nothing: the clock's tick for CPU time, a program without a fault.
FLOORS = {"time": 1e-9, "rss": 1.0, "cpu": 0.001, "faults": 1.0}


@dataclass
class Ratio:
    """A ratio to the best peer; its 95 % bounds, not-a-number where there are too few passes;
    the bootstrap's ratios."""
    value: float
    low: float
    high: float
    draws: np.ndarray


@dataclass
class Comparison:
    """One row under one metric."""
    best: str
    medians: dict
    ratios: dict

    def is_won_by(self, name):
        """Whether nobody but primalloc's second entry has a lesser median; several may have it."""
        least = min(value for other, value in self.medians.items() if other != AGAIN)
        return self.medians.get(name) == least


@dataclass
class Mean:
    """A geometric mean of ratios over `count` rows, with its bounds."""
    value: float
    low: float
    high: float
    count: int


class Analysis:
    """All comparisons of a campaign, by row and metric, and their means."""

    def __init__(self, raw):
        self.raw = raw
        self.names = [one["name"] for one in raw["allocators"]]
        self.peers = [name for name in self.names if name not in (OURS, AGAIN)]
        self.rows = raw["rows"]
        self.groups = list(dict.fromkeys(row["group"] for row in self.rows))
        self.failures = {(one["row"], one["allocator"]): one["reason"]
                         for one in raw["failures"]}
        self.values = self.collect()
        self.comparisons = {
            (row["name"], metric): self.compare(row["name"], metric)
            for row in self.rows for metric in METRICS}

    def collect(self):
        """(row, allocator, metric) -> {pass: value}, without pairs that failed at some pass."""
        values = {}
        for sample in self.raw["samples"]:
            pair = (sample["row"], sample["allocator"])
            if pair in self.failures:
                continue
            for metric, fields in METRICS.items():
                value = max(sum(sample[one] for one in fields), FLOORS[metric])
                values.setdefault((*pair, metric), {})[sample["pass_number"]] = value
        return values

    def half(self, row, name, metric, parity):
        """{pass: value} of the odd (1) or even (0) passes; with one pass only, that pass."""
        passes = self.values.get((row, name, metric), {})
        chosen = {number: value for number, value in passes.items() if number % 2 == parity}
        return chosen or passes

    def compare(self, row, metric):
        """None when no peer ran the row."""
        odd = {name: median(half) for name in self.peers
               if (half := self.half(row, name, metric, 1))}
        if not odd:
            return None
        best = min(odd, key=odd.get)
        reference = self.half(row, best, metric, 0)
        medians, ratios = {}, {}
        for name in self.names:
            half = self.half(row, name, metric, 0)
            if half:
                medians[name] = median(half)
                ratios[name] = ratio_of(half, reference)
        return Comparison(best, medians, ratios)

    def mean(self, name, metric, group=None):
        """The geometric mean of an allocator's ratios over a group's rows, or None."""
        ratios = [comparison.ratios[name] for row in self.rows
                  if group in (None, row["group"])
                  and (comparison := self.comparisons[row["name"], metric])
                  and name in comparison.ratios]
        return mean_of(ratios)

    def bounds_note(self):
        """A sentence on bounds from few passes, or nothing."""
        compared = self.raw["passes"] // 2
        if not compared:
            return " But of one pass the best peers are chosen and compared on the same figures."
        if compared not in HOLD_LESS:
            return ""
        return (f" But of {compared} compared passes such bounds hold in {HOLD_LESS[compared]} % "
                f"of cases only: it takes 10 passes in all.")

    def wins(self, name, metric):
        return sum(1 for row in self.rows
                   if (one := self.comparisons[row["name"], metric]) and one.is_won_by(name))

    def not_first(self, metric):
        """[(row, comparison)] where primalloc is slower (or larger) than the best peer."""
        rows = [(row["name"], comparison) for row in self.rows
                if (comparison := self.comparisons[row["name"], metric])
                and OURS in comparison.ratios and comparison.ratios[OURS].value > 1]
        return sorted(rows, key=lambda entry: -entry[1].ratios[OURS].value)


def mean_of(ratios):
    """Their geometric mean, or None where there are none."""
    if not ratios:
        return None
    draws = np.exp(np.mean(np.log([ratio.draws for ratio in ratios]), axis=0))
    low, high = np.percentile(draws, BOUNDS)
    if all(np.isnan(ratio.low) for ratio in ratios):
        low = high = np.nan
    value = np.exp(np.mean(np.log([ratio.value for ratio in ratios])))
    return Mean(float(value), float(low), float(high), len(ratios))


def median(values):
    return float(np.median(list(values.values())))


def ratio_of(values, reference):
    """The ratio of medians over the passes that both have, and its bootstrap. Where they have none
    in common, since one of them was given up early, over all that each has.

    With too few passes for bounds the draws are the ratio itself: in a mean over rows such a row,
    one that was lost from the start, adds its value and no spread.
    """
    both = sorted(values.keys() & reference.keys())
    if not both:
        ratio = median(values) / median(reference)
        return Ratio(ratio, np.nan, np.nan, np.full(DRAWS, ratio))
    ours = np.array([values[number] for number in both])
    best = np.array([reference[number] for number in both])
    ratio = float(np.median(ours) / np.median(best))
    if len(both) < BOUNDED_FROM:
        return Ratio(ratio, np.nan, np.nan, np.full(DRAWS, ratio))
    picks = np.random.default_rng(len(both)).integers(0, len(both), (DRAWS, len(both)))
    draws = np.median(ours[picks], axis=1) / np.median(best[picks], axis=1)
    low, high = np.percentile(draws, BOUNDS)
    return Ratio(ratio, float(low), float(high), draws)
