"""The rows of bench/large.toml, and whether what they ask for was reached.

A row runs one program and has goals; a goal looks at one figure of it. A goal with a fixed bound
takes the worst pass. One that compares with the best peer takes medians: the best peer is chosen on
the odd passes and compared on the even ones, as everywhere here, since the least of several noisy
numbers is lucky.
"""

import re
import signal
import tomllib
from dataclasses import dataclass
from statistics import median

from .environment import BENCH, VENV
from .rows import WORKLOADS, fill, load_rows

TABLE = BENCH / "large.toml"
FIGURE = re.compile(r"^figure (\w+) (\S+)$", re.MULTILINE)
WORKS = "works"


@dataclass(frozen=True)
class Goal:
    """One figure of a row, and the bound that it may not exceed."""
    figure: str
    reach: str
    unit: str = ""
    most: float | None = None
    of: str | None = None
    times: float = 1.0
    plus: float = 0.0
    of_best: float | None = None

    def is_met(self, figures):
        """Whether a pass's figures keep a bound that does not depend on others."""
        bound = self.most if self.of is None else self.times * figures[self.of] + self.plus
        return figures[self.figure] <= bound


@dataclass(frozen=True)
class GoalRow:
    """What runs, and what is asked of it."""
    name: str
    about: str
    command: tuple
    env: tuple
    expect: str
    seconds: float
    goals: tuple

    @property
    def is_compared(self):
        """Whether a goal compares with the best peer, so that several passes are needed."""
        return any(goal.of_best is not None for goal in self.goals)

    def words(self, scratch):
        words = self.filled(self.command, scratch)
        workload = WORKLOADS / words[0]
        return [str(workload), *words[1:]] if workload.exists() else words

    def assignments(self, scratch):
        return self.filled([f"{name}={value}" for name, value in self.env], scratch)

    @staticmethod
    def filled(words, scratch):
        return [word.replace("{workloads}", str(WORKLOADS))
                    .replace("{python}", str(VENV / "bin" / "python"))
                for word in fill(words, scratch)]


def with_values(words, values):
    for name, value in values.items():
        words = [word.replace("{" + name + "}", str(value)) for word in words]
    return words


def rows_of_entry(entry, quick):
    """The rows that one entry of large.toml stands for; with its quick values for a quick run."""
    entry = dict(entry)
    if "same_as" in entry:
        entry["command"] = next(row.command for row in load_rows()
                                if row.name == entry["same_as"])
    for member in entry.get("each", [{}]):
        values = dict(member)
        changes = values.pop("quick", entry.get("quick", {}))
        if quick and changes is False:
            continue
        if quick:
            values |= changes
        env = entry.get("env", {})
        yield GoalRow(
            name=with_values([entry["name"]], values)[0], about=entry["about"],
            command=tuple(with_values(entry["command"], values)),
            env=tuple(zip(env, with_values(env.values(), values))),
            expect=entry.get("expect", ""), seconds=entry["seconds"],
            goals=tuple(Goal(**goal) for goal in entry["goal"]))


def load_goal_rows(quick, path=TABLE):
    with open(path, "rb") as file:
        entries = tomllib.load(file)["row"]
    return [row for entry in entries for row in rows_of_entry(entry, quick)]


def failure_of(row, outcome):
    """"" or in a word or two how the program did not end well."""
    figures = outcome.figures
    if figures["timed_out"]:
        return "timeout"
    if figures["signal"]:
        return signal.Signals(figures["signal"]).name
    if figures["exit_status"]:
        return f"exit {figures['exit_status']}"
    if not re.search(row.expect, outcome.output, re.MULTILINE):
        return "wrong output"
    return ""


def figures_of(outcome):
    """All figures of a program that ended well: the launcher's and those that it printed."""
    used = outcome.figures
    figures = {WORKS: 0.0, "cpu_s": (used["user_us"] + used["system_us"]) / 1e6,
               "peak_rss_mib": used["peak_rss_kib"] / 1024}
    return figures | {name: float(value) for name, value in FIGURE.findall(outcome.output)}


@dataclass
class Judgement:
    """A goal under all allocators: shown values, the best peer, and what primalloc made of it.

    `ratio` is to the best peer, for a goal that compares; `reached` is None where primalloc was
    not measured, or had no peer to be compared with.
    """
    goal: Goal
    values: dict
    best: str | None
    ratio: float | None
    reached: bool | None


def judge(goal, passes, failures, ours):
    """passes: {allocator: {pass number: figures}} of one row; failures: {allocator: reason}."""
    good = {name: by_pass for name, by_pass in passes.items()
            if name not in failures and by_pass}
    if goal.of_best is not None:
        return judge_compared(goal, good, ours in failures, ours)
    values = {name: max(figures[goal.figure] for figures in by_pass.values())
              for name, by_pass in good.items()}
    reached = None
    if ours in good:
        reached = all(goal.is_met(figures) for figures in good[ours].values())
    elif ours in failures:
        reached = False
    return Judgement(goal, values, best_peer(values, ours), None, reached)


def judge_compared(goal, good, ours_failed, ours):
    def halves(parity):
        """{allocator: median} over the odd or even passes; of all where it has none of these."""
        return {name: median([by_pass[number][goal.figure] for number in by_pass
                              if number % 2 == parity]
                             or [one[goal.figure] for one in by_pass.values()])
                for name, by_pass in good.items()}
    best, values = best_peer(halves(1), ours), halves(0)
    if ours_failed or ours not in values or best is None:
        return Judgement(goal, values, best, None, False if ours_failed else None)
    ratio = values[ours] / values[best]
    return Judgement(goal, values, best, ratio, ratio <= goal.of_best)


def best_peer(values, ours):
    peers = {name: value for name, value in values.items() if name != ours}
    return min(peers, key=peers.get) if peers else None
