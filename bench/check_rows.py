#!/usr/bin/env python3
"""Checks bench/rows.toml and bench/large.toml: every row is whole, and everything that it names is
there.

    bench/check_rows.py [--programs]

Without options it checks the table and the files of bench/ that it names; with --programs also that
every program is found, the built workloads answer --help, and refuse a wrong command line.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from harness.environment import BENCH
from harness.experiments import PROGRAMS
from harness.goals import load_goal_rows
from harness.rows import WORKLOADS

ROWS_LEAST = 40
KEYS = {"name": str, "group": str, "command": list, "threads": int, "seconds": (int, float),
        "quick": bool, "about": str}
OPTIONAL = {"env": dict, "prepare": list, "score": str}
GROUPS = {"t-test", "threads", "small", "large", "apps"}


def workload_sources():
    folder = BENCH / "workloads"
    return {path.stem for path in (*folder.glob("*.c"), *folder.glob("*.cpp"))}


def key_problems(row):
    for key, kind in KEYS.items():
        if not isinstance(row.get(key), kind):
            yield f"{key} is missing or of the wrong type"
    for key, value in row.items():
        if key not in KEYS and not isinstance(value, OPTIONAL.get(key, ())):
            yield f"{key} is not a key of a row, or of the wrong type"
    if row.get("group") not in GROUPS:
        yield f"the group {row.get('group')} is not one of {', '.join(sorted(GROUPS))}"
    if not str(row.get("about", "")).endswith("."):
        yield "about is not a sentence"


def score_problems(row):
    score = row.get("score", "time")
    if score == "time":
        return
    if not score.startswith("rate:"):
        yield f"the score {score} is neither time nor rate:<regex>"
    elif re.compile(score.removeprefix("rate:")).groups != 1:
        yield f"the score {score} does not capture one number"


def file_problems(row):
    """Files below {bench} and placeholders; {tmp} files are there once prepare has run."""
    words = row["command"] + row.get("prepare", []) + list(row.get("env", {}).values())
    for word in words:
        for name in re.findall(r"\{(\w+)\}", word):
            if name not in ("tmp", "bench"):
                yield f"{{{name}}} in '{word}' is not a placeholder"
        for path in re.findall(r"\{bench\}/(\S+)", word):
            if not (BENCH / path).exists():
                yield f"there is no file bench/{path}"


def python_problems(row):
    """Variables of the row that Python is told to ignore: the row would not be what it says."""
    ignored = [word for word in row["command"] if word in ("-I", "-E")]
    for name in row.get("env", {}):
        if name.startswith("PYTHON") and ignored:
            yield f"{ignored[0]} makes Python ignore {name}"


def program_problems(row, workloads):
    programs = [row["command"][0]] + row.get("prepare", [])[:1]
    for program in programs:
        if program in workloads:
            if not (WORKLOADS / program).exists():
                yield f"the workload {program} is not built; see bench/workloads/CMakeLists.txt"
        elif not shutil.which(program):
            yield f"{program} is not installed; see bench/apt-packages.txt"


def exit_status(program, option):
    return subprocess.run([WORKLOADS / program, option], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=10, check=False).returncode


def workload_problems(workloads):
    for program in sorted(workloads):
        if not (WORKLOADS / program).exists():
            continue
        if exit_status(program, "--help") != 0:
            yield f"{program}: --help fails"
        if exit_status(program, "--no-such-option") != 2:
            yield f"{program}: a wrong option does not end with status 2"


def doubled_names(names):
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name}: two rows have this name"


def goal_row_problems(row):
    """A row of large.toml, its values filled in."""
    words = row.words(Path("{tmp}"))
    for word in [*words, *row.assignments(Path("{tmp}")), row.name]:
        for name in re.findall(r"\{([a-z]\w*)\}", word.replace("{tmp}", "")):
            yield f"{{{name}}} in '{word}' has no value"
    if not row.about.endswith("."):
        yield "about is not a sentence"
    for goal in row.goals:
        bounds = [goal.most, goal.of, goal.of_best]
        if bounds.count(None) != len(bounds) - 1:
            yield f"the goal for {goal.figure} has not exactly one of most, of, of_best"


def goal_table_problems(rows):
    yield from doubled_names([row.name for row in rows])
    for row in rows:
        yield from (f"{row.name}: {problem}" for problem in goal_row_problems(row))


def table_problems(rows, goal_rows, workloads):
    yield from doubled_names([row.get("name") for row in rows])
    if len(rows) < ROWS_LEAST:
        yield f"{len(rows)} rows, at least {ROWS_LEAST} wanted"
    used = {row["command"][0] for row in rows}
    used |= {Path(word).name for row in goal_rows for word in row.command}
    for program in sorted(workloads - used - set(PROGRAMS)):
        yield f"no row and no experiment runs the workload {program}"


def problems(rows, goal_rows, with_programs):
    workloads = workload_sources()
    yield from table_problems(rows, goal_rows, workloads)
    yield from goal_table_problems(goal_rows)
    yield from goal_table_problems(load_goal_rows(quick=True))
    for row in rows:
        found = [*key_problems(row), *score_problems(row), *file_problems(row),
                 *python_problems(row)]
        if with_programs:
            found += program_problems(row, workloads)
        yield from (f"{row['name']}: {problem}" for problem in found)
    if with_programs:
        yield from workload_problems(workloads)


def main():
    parser = argparse.ArgumentParser(description="Check bench/rows.toml and bench/large.toml.")
    parser.add_argument("--programs", action="store_true",
                        help="also check that every program is there and its command line works")
    options = parser.parse_args()
    rows = tomllib.loads((BENCH / "rows.toml").read_text(encoding="utf-8"))["row"]
    goal_rows = load_goal_rows(quick=False)
    found = list(problems(rows, goal_rows, options.programs))
    for problem in found:
        print(f"bench: {problem}", file=sys.stderr)
    print(f"{len(rows)} rows, {sum(row['quick'] for row in rows)} of them quick; "
          f"{len(goal_rows)} rows with goals; {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
