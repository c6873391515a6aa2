"""Real programs do real work under the preload: the output is libc's, byte for byte, and at least
10,000 calls are proved to be primalloc's. Every program also runs in the default mode, where the
fast paths serve it."""

import pathlib
import re
import subprocess

import pytest

from harness import require
from programs import PROGRAMS, Program

# Times, process numbers and addresses differ between two runs under one allocator, too.
VOLATILE = re.compile(
    rb"\b\d+(\.\d+)? ?(ms|sec|s)\b|0x[0-9a-f]{6,}|\bload avg: .*|^Using random seed.*$"
    rb"|\(\d+:\d+\)|^Total duration.*$|in \d+(\.\d+)? ?s\b", re.MULTILINE)


def prepare(program: Program, directory: pathlib.Path) -> None:
    directory.mkdir()
    program.prepare(directory)
    if program.name == "a C++ program":
        subprocess.run(["g++", "-std=c++17", "-O1", "-o", "main", "main.cc"], cwd=directory,
                       check=True, timeout=120)
    if program.name == "gdb":
        subprocess.run(["gcc", "-g", "-O0", "-o", "main", "main.c"], cwd=directory, check=True,
                       timeout=60)


def outcome(program: Program, result, directory: pathlib.Path) -> dict[str, bytes]:
    """Everything that the program said and left behind."""
    files = {"exit status": str(result.returncode).encode(),
             "standard output": VOLATILE.sub(b"<volatile>", result.stdout),
             "standard error": VOLATILE.sub(b"<volatile>", result.stderr)}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_file() and not any(name.startswith(part) for part in program.ignored):
            files[name] = path.read_bytes()
    return files


def check_equal(expected: dict[str, bytes], got: dict[str, bytes]) -> None:
    assert sorted(got) == sorted(expected)
    for name, content in expected.items():
        if got[name] != content:
            pytest.fail(f"{name} differs from libc's:\n{content[-1500:]!r}\n{got[name][-1500:]!r}")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_program(program: Program, harness):
    require(*program.needs)
    for path in program.paths:
        if not pathlib.Path(path).exists():
            pytest.skip(f"{path} is not installed (tests/apt-packages.txt)")
    work = harness.directory / "work"

    def run(runner, **changes):
        prepare(program, work)
        made = runner({**program.environment, **changes})
        result = made[0] if isinstance(made, tuple) else made
        files = outcome(program, result, work)
        work.rename(harness.directory / f"work.{len(list(harness.directory.iterdir()))}")
        return files, made

    def plain(changes):
        return harness.run(program.command, environment=harness.environment(**changes),
                           directory=work)

    def preloaded(changes):
        return harness.run_preloaded(program.command, changes=changes, directory=work)

    def counted(changes):
        return harness.run_counted(program.command, changes=changes, directory=work)

    expected, _ = run(plain)
    got, _ = run(preloaded)
    check_equal(expected, got)
    got, (_, processes) = run(counted)
    check_equal(expected, got)

    calls = sum(process.calls for process in processes
                if not program.counted or process.program.startswith(program.counted))
    assert calls >= program.minimum_calls, f"only {calls} calls are ours: {processes}"
