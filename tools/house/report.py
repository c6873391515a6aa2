"""How a tool says what it found: outcomes, verdicts and one tidy table."""

import os
import sys
from dataclasses import dataclass, field

COLOURS = {"pass": "32", "fail": "31", "skip": "33"}


@dataclass
class Outcome:
    """What a rule found: a few words for the table, and one line for each violation."""

    details: str
    problems: list = field(default_factory=list)

    @property
    def verdict(self):
        return "fail" if self.problems else "pass"


def paint(text, verdict):
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\033[{COLOURS[verdict]}m{text}\033[0m"


class Table:
    """Rows printed as they come, so that a slow rule is seen to be at work."""

    def __init__(self, first, width):
        self.width = width
        self.counts = {"pass": 0, "fail": 0, "skip": 0}
        print(f"{first:<{width}}  verdict  seconds  details")
        print(f"{'-' * width}  -------  -------  {'-' * 40}")

    def row(self, name, verdict, seconds, details, problems=()):
        self.counts[verdict] += 1
        padded = paint(f"{verdict:<7}", verdict)
        print(f"{name:<{self.width}}  {padded}  {seconds:7.1f}  {details}")
        for problem in list(problems)[:40]:
            print(f"{'':<{self.width}}  - {problem}")
        if len(problems) > 40:
            print(f"{'':<{self.width}}  - and {len(problems) - 40} more")
        sys.stdout.flush()

    def close(self):
        """Prints the closing line and returns the exit status."""
        line = f"{self.counts['pass']} passed, {self.counts['fail']} failed"
        if self.counts["skip"]:
            line += f", {self.counts['skip']} skipped"
        print(f"\n{line}")
        return 1 if self.counts["fail"] else 0
