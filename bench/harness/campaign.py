"""A campaign: interleaved passes over rows and allocators, within a time budget.

In every pass each row is run once under every allocator, in an order shuffled anew for each row
and pass from a printed seed, so that drift of the machine falls on all alike. The first pass tells
what a pass costs; the budget then gives the number of passes, an even one, since the analysis
chooses the best peers on the odd passes and compares on the even ones.
"""

import random
import time
from dataclasses import asdict, dataclass, field

from .environment import BenchError
from .rows import missing_program, prepare_row
from .trial import clean_environment, run_trial

TIMEOUT_LEAST_S = 10.0
TIMEOUT_FACTOR = 30.0
PASSES_LEAST = 2
PASSES_MOST = 40


@dataclass
class Sample:
    """One trial's figures: seconds, KiB and counts of the program and all its descendants."""
    pass_number: int
    row: str
    allocator: str
    score_s: float
    wall_s: float
    user_s: float
    system_s: float
    peak_rss_kib: int
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int


@dataclass
class Campaign:
    """What is measured and what came out; `observer` is told about progress."""
    rows: list
    allocators: list
    seed: int
    scratch: object
    observer: object
    samples: list = field(default_factory=list)
    failures: dict = field(default_factory=dict)
    skipped: dict = field(default_factory=dict)
    passes: int = 0

    def run(self, minutes, passes):
        """Warm up, run the first pass, plan, run the rest; an interrupt keeps whole passes."""
        started = time.monotonic()
        self.warm_up()
        first = time.monotonic()
        try:
            self.run_pass(1)
            cost_s = time.monotonic() - first
            total = passes or planned_passes(minutes * 60, first - started, cost_s)
            self.observer.planned(total, cost_s)
            for number in range(2, total + 1):
                self.run_pass(number)
        except KeyboardInterrupt:
            self.samples = [one for one in self.samples if one.pass_number <= self.passes]
            self.observer.interrupted(self.passes)
        if not self.samples:
            raise BenchError("no pass was completed, so there is nothing to report")

    def warm_up(self):
        """Make the input files, and run each row once with libc's malloc: files in the page cache,
        and a row that can't run here is left out with its reason."""
        usable = []
        for row in self.rows:
            self.observer.trial(0, row.name, "warm-up")
            reason = self.why_not(row)
            if reason:
                self.skipped[row.name] = reason
                self.observer.skipped(row.name, reason)
            else:
                usable.append(row)
        self.rows = usable
        if not usable:
            raise BenchError("none of the rows can run on this machine")

    def why_not(self, row):
        program = missing_program(row, self.scratch)
        if program:
            return f"the program {program} is not there"
        try:
            prepare_row(row, self.scratch, clean_environment())
        except BenchError as error:
            return str(error)
        return self.trial(row, row.assignments(self.scratch)).failure

    def trial(self, row, assignments):
        timeout_s = max(TIMEOUT_LEAST_S, TIMEOUT_FACTOR * row.seconds)
        return run_trial(row.words(self.scratch), assignments, self.scratch, timeout_s)

    def run_pass(self, number):
        for row in self.rows:
            order = list(self.allocators)
            random.Random(f"{self.seed}/{number}/{row.name}").shuffle(order)
            for allocator in order:
                if (row.name, allocator.name) not in self.failures:
                    self.observer.trial(number, row.name, allocator.name)
                    self.measure(number, row, allocator)
        self.passes = number

    def measure(self, number, row, allocator):
        """One trial, tried again when it fails; twice fails the row under the allocator."""
        assignments = row.assignments(self.scratch) + allocator.assignments()
        outcome = self.trial(row, assignments)
        if outcome.failure and not outcome.figures["timed_out"]:
            outcome = self.trial(row, assignments)
        if outcome.failure:
            self.failures[row.name, allocator.name] = outcome.failure
            self.observer.failed(row.name, allocator.name, outcome.failure)
            return
        figures = outcome.figures
        wall_s = figures["wall_us"] / 1e6
        self.samples.append(Sample(
            number, row.name, allocator.name, row.score_of(outcome.output, wall_s), wall_s,
            figures["user_us"] / 1e6, figures["system_us"] / 1e6,
            *(figures[key] for key in ("peak_rss_kib", "minor_faults", "major_faults",
                                       "voluntary_switches", "involuntary_switches"))))

    def raw(self, facts):
        """Everything that raw.json keeps."""
        return {
            "machine": facts,
            "seed": self.seed,
            "passes": self.passes,
            "allocators": [{"name": one.name, "version": one.version, "source": one.source}
                           for one in self.allocators],
            "rows": [{"name": row.name, "group": row.group, "about": row.about,
                      "score": row.score, "threads": row.threads} for row in self.rows],
            "skipped": self.skipped,
            "failures": [{"row": row, "allocator": allocator, "reason": reason}
                         for (row, allocator), reason in self.failures.items()],
            "samples": [asdict(sample) for sample in self.samples],
        }


def planned_passes(budget_s, spent_s, cost_s):
    """An even number of passes that fits: the first is done, `spent_s` went before it."""
    fits = int((budget_s - spent_s) / max(cost_s, 0.01))
    return min(PASSES_MOST, max(PASSES_LEAST, fits - fits % 2))
