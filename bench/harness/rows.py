"""The rows of bench/rows.toml: what each runs, and how a run of it is scored."""

import fnmatch
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .environment import BENCH, BUILD, BenchError
from .trial import clean_environment

WORKLOADS = BUILD / "bench"
RATE = "rate:"


@dataclass(frozen=True)
class Row:
    """One benchmark as rows.toml describes it; words keep their placeholders until it runs."""
    name: str
    group: str
    command: tuple
    prepare: tuple
    env: tuple
    score: str
    threads: int
    seconds: float
    quick: bool
    about: str

    def words(self, scratch):
        """The command with its program resolved and its placeholders filled in."""
        words = fill(self.command, scratch)
        workload = WORKLOADS / words[0]
        return [str(workload), *words[1:]] if workload.exists() else words

    def assignments(self, scratch):
        return fill([f"{name}={value}" for name, value in self.env], scratch)

    def score_of(self, output, wall_s):
        """Seconds, or for a rate the seconds a unit takes: less is better either way."""
        if not self.score.startswith(RATE):
            return wall_s
        found = re.search(self.score[len(RATE):], output)
        rate = float(found.group(1).replace(",", "")) if found else 0.0
        if rate <= 0:
            raise BenchError(f"it printed no rate that matches {self.score}")
        return 1.0 / rate


def fill(words, scratch):
    """Replace {tmp} and {bench}; other braces stay as they are."""
    return [str(word).replace("{tmp}", str(scratch)).replace("{bench}", str(BENCH))
            for word in words]


def load_rows(path=BENCH / "rows.toml"):
    with open(path, "rb") as file:
        entries = tomllib.load(file)["row"]
    rows = [Row(name=entry["name"], group=entry["group"], command=tuple(entry["command"]),
                prepare=tuple(entry.get("prepare", ())),
                env=tuple(entry.get("env", {}).items()), score=entry.get("score", "time"),
                threads=entry["threads"], seconds=entry.get("seconds", 1.0),
                quick=entry["quick"], about=entry["about"]) for entry in entries]
    names = [row.name for row in rows]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise BenchError(f"{path} has two rows called {', '.join(sorted(doubled))}")
    return rows


def matching(rows, patterns, fields, table):
    """Rows of which a field matches one of the comma-separated shell patterns; each must match."""
    def matches(row, pattern):
        return any(fnmatch.fnmatch(getattr(row, field), pattern) for field in fields)
    patterns = patterns.split(",")
    for one in patterns:
        if not any(matches(row, one) for row in rows):
            raise BenchError(f"no row matches {one}; {table} has them all")
    return [row for row in rows if any(matches(row, one) for one in patterns)]


def select_rows(rows, patterns, quick):
    """The rows that the patterns name, or belong to the groups that they name; else all, or the
    quick ones."""
    if patterns:
        return matching(rows, patterns, ("name", "group"), "bench/rows.toml")
    return [row for row in rows if row.quick or not quick]


def missing_program(row, scratch):
    """The program of a row when it is not there, else None."""
    program = row.words(scratch)[0]
    found = Path(program).exists() if "/" in program else shutil.which(program)
    return None if found else program


def prepare_row(row, scratch):
    """Run the row's preparation, with libc's malloc; raise BenchError when it fails."""
    if not row.prepare:
        return
    answer = subprocess.run(fill(row.prepare, scratch), stdin=subprocess.DEVNULL, cwd=scratch,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=clean_environment(), check=False)
    if answer.returncode != 0:
        raise BenchError(f"the preparation of {row.name} failed: {answer.stdout.strip()[-300:]}")
