"""A campaign: interleaved passes over rows and allocators, within a time budget.

In every pass each row is run once under every allocator, in an order shuffled anew for each row
and pass from a printed seed, so that drift of the machine falls on all alike. After two passes the
budget gives the number of further ones, an even number, since the analysis chooses the best peers
on the odd passes and compares on the even ones. A peer whose better time of these passes is far
from the best peer's, or was hopelessly far in the first, is not run on that row again: repeating a
lost race would cost the others passes. The thriftiest peer of a row is what all memory is compared
with, so it may take longer before it is left out.
"""

import random
import time
from dataclasses import asdict, dataclass, field

from .environment import BenchError
from .rows import missing_program, prepare_row
from .trial import run_trial

TIMEOUT_LEAST_S = 10.0
TRIAL_OVERHEAD_S = 0.02
TIMEOUT_FACTOR = 30.0
FIRST_PASSES = 2
FURTHER_PASSES_MOST = 38
FAR_BEHIND = 1.5
THRIFTIEST_BEHIND = 3.0
HOPELESS = 10.0


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
    second_runs: list = field(default_factory=list)
    skipped: dict = field(default_factory=dict)
    far_behind: set = field(default_factory=set)
    passes: int = 0

    def run(self, minutes, passes):
        """Warm up, then the given number of passes or as many as the minutes allow, beyond those
        of a run that goes on. An interrupt, or a machine without room for a trial, keeps the passes
        that are whole."""
        started = time.monotonic()

        def further():
            return passes or self.further_passes(minutes * 60 - (time.monotonic() - started))
        self.warm_up()
        if self.passes and not further():
            raise BenchError("the time is not enough for two passes more; --minutes or --passes "
                             "asks for it")
        try:
            if not passes and not self.passes:
                self.run_first_passes()
            self.run_passes(self.passes + further())
        except (KeyboardInterrupt, BenchError, OSError) as reason:
            self.samples = [one for one in self.samples if one.pass_number <= self.passes]
            self.observer.interrupted(self.passes, str(reason))
        if not self.samples:
            raise BenchError("no trial of a whole pass succeeded, so there is nothing to report")

    def run_first_passes(self):
        self.observer.planned(0, FIRST_PASSES, 0)
        for number in range(1, FIRST_PASSES + 1):
            self.run_pass(number)
            is_first = number < FIRST_PASSES
            self.leave_far_behind(HOPELESS if is_first else FAR_BEHIND,
                                  HOPELESS if is_first else THRIFTIEST_BEHIND)

    def run_passes(self, total):
        self.observer.planned(self.passes, total, len(self.far_behind) + len(self.failures))
        for number in range(self.passes + 1, total + 1):
            self.run_pass(number)

    def leave_far_behind(self, factor, factor_of_thriftiest):
        """Find the pairs of row and peer that need no further passes."""
        peers = {allocator.name for allocator in self.allocators if allocator.is_peer}
        by_row = {}
        for sample in self.samples:
            if sample.allocator in peers:
                by_row.setdefault(sample.row, {}).setdefault(sample.allocator, []).append(sample)
        for row, by_name in by_row.items():
            least_s = {name: min(one.score_s for one in samples)
                       for name, samples in by_name.items()}
            least_kib = {name: min(one.peak_rss_kib for one in samples)
                         for name, samples in by_name.items()}
            bounds = dict.fromkeys(by_name, factor)
            bounds[min(least_kib, key=least_kib.get)] = factor_of_thriftiest
            self.far_behind |= {(row, name) for name, bound in bounds.items()
                                if least_s[name] > bound * min(least_s.values())}

    def further_passes(self, left_s):
        """An even number of passes that fits into the time left, by what the last pass took."""
        pass_s = sum(sample.wall_s + TRIAL_OVERHEAD_S for sample in self.samples
                     if sample.pass_number == self.passes
                     and (sample.row, sample.allocator) not in self.far_behind)
        fits = int(max(0.0, left_s) / pass_s) if pass_s else 0
        return min(FURTHER_PASSES_MOST, fits - fits % 2)

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
            prepare_row(row, self.scratch)
        except BenchError as error:
            return str(error)
        return self.trial(row, row.assignments(self.scratch)).failure

    def trial(self, row, assignments):
        """A trial with its score; a program that ends well but prints none has failed as well."""
        timeout_s = max(TIMEOUT_LEAST_S, TIMEOUT_FACTOR * row.seconds)
        outcome = run_trial(row.words(self.scratch), assignments, self.scratch, timeout_s)
        if not outcome.failure:
            try:
                outcome.score_s = row.score_of(outcome.output, outcome.figures["wall_us"] / 1e6)
            except BenchError as error:
                outcome.failure = str(error)
        return outcome

    def run_pass(self, number):
        for row in self.rows:
            order = list(self.allocators)
            random.Random(f"{self.seed}/{number}/{row.name}").shuffle(order)
            for allocator in order:
                pair = (row.name, allocator.name)
                if pair not in self.failures and pair not in self.far_behind:
                    self.observer.trial(number, row.name, allocator.name)
                    self.measure(number, row, allocator)
        self.passes = number

    def measure(self, number, row, allocator):
        """One trial, tried again when it fails, which is kept; twice fails the row under the
        allocator."""
        assignments = row.assignments(self.scratch) + allocator.assignments()
        outcome = self.trial(row, assignments)
        first = outcome.failure
        if first and not outcome.figures["timed_out"]:
            outcome = self.trial(row, assignments)
        if outcome.failure:
            self.failures[row.name, allocator.name] = outcome.failure
            self.observer.failed(row.name, allocator.name, outcome.failure)
            return
        if first:
            self.second_runs.append({"row": row.name, "allocator": allocator.name,
                                     "pass_number": number, "reason": first})
            self.observer.failed(row.name, allocator.name, f"{first}; its second run counts")
        figures = outcome.figures
        self.samples.append(Sample(
            number, row.name, allocator.name, outcome.score_s, figures["wall_us"] / 1e6,
            figures["user_us"] / 1e6, figures["system_us"] / 1e6,
            *(figures[key] for key in ("peak_rss_kib", "minor_faults", "major_faults",
                                       "voluntary_switches", "involuntary_switches"))))

    def raw(self, facts):
        """Everything that raw.json keeps."""
        return {
            "machine": facts,
            "seed": self.seed,
            "passes": self.passes,
            "allocators": [one.facts() for one in self.allocators],
            "rows": [{"name": row.name, "group": row.group, "about": row.about,
                      "score": row.score, "threads": row.threads} for row in self.rows],
            "skipped": self.skipped,
            "failures": [{"row": row, "allocator": allocator, "reason": reason}
                         for (row, allocator), reason in self.failures.items()],
            "second_runs": self.second_runs,
            "samples": [asdict(sample) for sample in self.samples],
        }
