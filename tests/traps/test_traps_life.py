"""Forks with many threads, signals, stacks that are walked, cancellation, clocks."""

import os
import platform
import re

import pytest


def calls_of_fork(harness, program, threads, library=None):
    """The system calls of the forking thread, between its two marks."""
    trace = harness.directory / f"trace.{threads}.{library is None}"
    command = ["strace", "-o", trace, program, str(threads)]
    environment = harness.preloaded() if library else harness.environment()
    assert harness.run(command, environment=environment).stdout.startswith(b"forked")
    return re.findall(r"^(\w+)\(", trace.read_text().split("getppid()")[1], re.MULTILINE)


def test_t41_fork_makes_no_calls_for_threads(harness, fixtures, need, library):
    """With 1000 threads that have allocated: the calls of 2, which are glibc's."""
    need("strace")
    program = fixtures("fork_cost.c")
    expected = [name for name in calls_of_fork(harness, program, 2) if name != "wait4"]
    for threads in (2, 1000):
        calls = calls_of_fork(harness, program, threads, library)
        assert [name for name in calls if name not in ("wait4", "futex")] == expected


def test_t46_stack_walked_in_a_signal_storm(preload, fixtures, each_library):
    """backtrace, from a handler, wherever the thread is inside the allocator."""
    assert preload(each_library, fixtures("behave.c"), "storm").stdout == b"good\n"


def test_t46_profiled_in_a_signal_storm(preload, harness, fixtures, each_library):
    changes = {"PRIMALLOC_PROFILE": f"{harness.directory}/profile.heap,rate=1"}
    assert preload(each_library, fixtures("behave.c"), "storm", **changes).stdout == b"good\n"


@pytest.mark.parametrize("words, setting", [
    (["61", "report"], {}),
    (["67", "threads"], {}),
    (["97", "keep", "report"], {"PRIMALLOC_STATS": "full"}),
    (["211", "keep", "report"], {"PRIMALLOC_LEAK_CHECK": "normal", "PRIMALLOC_CHECK": "full"}),
    pytest.param(["211", "keep", "threads"], {"PRIMALLOC_HARDENED": "1", "PRIMALLOC_STATS": "full"},
                 marks=pytest.mark.prove),
])
def test_t46_interrupted_everywhere(preload, fixtures, library, words, setting):
    """Single-stepped: a handler that allocates, frees and asks for statistics, at every so many
    instructions inside the library but for the window of malloc and free that docs/concurrency.md
    tells of. Where it keeps blocks, no call takes the fast path."""
    if platform.machine() != "x86_64":
        pytest.skip("steps and traps are those of x86-64")
    program = fixtures("interrupted.c")
    result = preload(library, program, *words, timeout=300, **setting)
    assert result.stdout.endswith(b" interruptions\ngood\n"), result.stderr[-500:]
    assert int(result.stdout.split()[0]) > 100
    if "report" in words:
        assert b"an interrupted call" in result.stderr
        assert b"live_bytes" in result.stderr


def test_t46_minimal_library(preload, fixtures, library):
    """The same of the one that has its own answers to whoever asks for statistics."""
    if platform.machine() != "x86_64":
        pytest.skip("steps and traps are those of x86-64")
    minimal = library.with_name("libprimalloc-minimal.so")
    result = preload(minimal, fixtures("interrupted.c"), "61", "report", timeout=300)
    assert result.stdout.endswith(b" interruptions\ngood\n"), result.stderr[-500:]
    assert b"an interrupted call" in result.stderr


def test_t48_stacks_while_libraries_come_and_go(preload, harness, fixtures, each_library):
    """Every call's stack is taken, by threads that hold the loader's lock, too."""
    changes = {"PRIMALLOC_PROFILE": f"{harness.directory}/profile.heap,rate=1"}
    result = preload(each_library, fixtures("behave.c"), "libraries", timeout=60, **changes)
    assert result.stdout == b"good\n"


@pytest.mark.parametrize("setting", [{}, {"PRIMALLOC_SHOW_ERRORS": "1"}])
def test_t49_no_cancellation_inside(preload, fixtures, each_library, setting):
    result = preload(each_library, fixtures("behave.c"), "cancellation", **setting)
    assert result.stdout == b"good\n"


@pytest.mark.parametrize("offset", ["--monotonic=900000000", "--boottime=900000000"])
def test_t57_clocks_far_ahead(harness, fixtures, need, library, offset):
    """Another namespace's clocks stand 28 years later."""
    need("unshare")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    command = ["unshare", "--time", offset, "--fork", "env", f"LD_PRELOAD={library}",
               fixtures("behave.c"), "much"]
    assert harness.run(command).stdout == b"good\n"


def test_t57_structures_do_not_follow_processors(preload, fixtures, library):
    """At most 64 shards, however many are asked for."""
    result = preload(library, fixtures("exercise.c"), PRIMALLOC_SHARDS="64")
    assert result.stdout == b"exercised\n"
