"""Runs a program under the preload and proves that its calls went to primalloc."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

import pytest

STATISTICS_LINE = re.compile(
    r"^primalloc pid=(?P<pid>\d+) program=(?P<program>.*) allocations=(?P<allocations>\d+) "
    r"frees=(?P<frees>\d+) reallocations=(?P<reallocations>\d+)(?: \w+=\d+)*$"
)

# What would change from run to run, or make a program load an allocator of its own.
NEUTRAL_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
}
# What time limits are multiplied by: they are for hangs, not for machines that are slow or busy.
PATIENCE = int(os.environ.get("PRIM_TEST_PATIENCE", "1"))
INHERITED = ("PATH", "HOME", "TMPDIR", "USER")


@dataclasses.dataclass
class Process:
    """One line of PRIMALLOC_STATS_OUTPUT."""

    program: str
    allocations: int
    frees: int
    reallocations: int

    @property
    def calls(self) -> int:
        return self.allocations + self.frees + self.reallocations


def parse_statistics(path: pathlib.Path) -> list[Process]:
    processes = []
    for line in path.read_text().splitlines() if path.exists() else []:
        match = STATISTICS_LINE.match(line)
        assert match, f"not a line of statistics: {line!r}"
        processes.append(Process(match["program"], int(match["allocations"]), int(match["frees"]),
                                 int(match["reallocations"])))
    return processes


def require(*programs: str) -> None:
    """Skips the test when a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (tests/apt-packages.txt)")


class Harness:
    """Runs commands in a directory of the test's own."""

    def __init__(self, library: pathlib.Path, directory: pathlib.Path):
        self.library = library
        self.directory = directory
        self.runs = 0

    def environment(self, **changes: str) -> dict[str, str]:
        base = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {**base, **NEUTRAL_ENVIRONMENT, **changes}

    def preloaded(self, **changes: str) -> dict[str, str]:
        changes.setdefault("LD_PRELOAD", str(self.library))
        return self.environment(**changes)

    def run(self, command, *, environment=None, directory=None, timeout=120, check=True, **options):
        """Runs a command to its end; fails the test with the command's output when it fails."""
        options.setdefault("stdin", subprocess.DEVNULL)
        try:
            result = subprocess.run(
                [str(word) for word in command],
                env=self.environment() if environment is None else environment,
                cwd=directory or self.directory,
                capture_output=True,
                timeout=timeout * PATIENCE,
                check=False,
                **options,
            )
        except subprocess.TimeoutExpired:
            pytest.fail(f"{command} did not end within {timeout * PATIENCE} s: deadlock?")
        if check and result.returncode != 0:
            pytest.fail(f"{command} ended with {result.returncode}\n"
                        f"{result.stdout[-2000:].decode(errors='replace')}\n"
                        f"{result.stderr[-2000:].decode(errors='replace')}")
        return result

    def run_preloaded(self, command, *, changes=None, **options):
        return self.run(command, environment=self.preloaded(**(changes or {})), **options)

    def run_counted(self, command, *, changes=None, **options):
        """Runs under the preload with every call counted; returns (result, processes)."""
        self.runs += 1
        output = self.directory / f"statistics.{self.runs}"
        settings = {"PRIMALLOC_STATS": "full", "PRIMALLOC_STATS_OUTPUT": str(output)}
        result = self.run_preloaded(command, changes={**settings, **(changes or {})}, **options)
        return result, parse_statistics(output)
