"""Limits on memory: of the control group, of the options, of the process; and what is asked of the
kernel to know them."""

import os
import pathlib
import re

import pytest

from harness import require

PYTHON = "/usr/bin/python3"
MIB = 1 << 20
# The loops of these tests last longer than a purge epoch on a busy machine; without it nothing is
# returned but by pressure.
NO_IDLE_PURGE = {"PRIMALLOC_PURGE_DELAY": "3600s"}


class ControlGroup:
    """A group below the one that the tests run in, for one test."""

    def __init__(self, directory: pathlib.Path, is_unified: bool):
        self.directory = directory
        self.is_unified = is_unified

    def enter(self):
        """For preexec_fn: moves the calling process into the group."""
        (self.directory / "cgroup.procs").write_text(str(os.getpid()))

    def limit_memory(self, size: int):
        name = "memory.max" if self.is_unified else "memory.limit_in_bytes"
        (self.directory / name).write_text(str(size))


def control_group_mounts(controller: str):
    """Yields (directory of our own group, whether it is version 2), as far as they are mounted."""
    groups = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        groups.update({name: path for name in names.split(",")})
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup" and controller in options.split(",") and controller in groups:
            yield pathlib.Path(before.split()[4] + groups[controller]), False
        elif kind == "cgroup2" and "" in groups:
            yield pathlib.Path(before.split()[4] + groups[""]), True


@pytest.fixture
def memory_group():
    refusals = ["no control groups are mounted"]
    for parent, is_unified in control_group_mounts("memory"):
        directory = parent / f"primalloc-test-{os.getpid()}"
        try:
            directory.mkdir()
        except OSError as error:
            refusals.append(str(error))
            continue
        group = ControlGroup(directory, is_unified)
        try:
            group.limit_memory(1 << 30)
        except OSError as error:
            refusals.append(str(error))
            directory.rmdir()
            continue
        yield group
        directory.rmdir()
        return
    pytest.skip(f"no control group with a memory limit can be made here: {refusals[-1]}")


def resident(result) -> list[int]:
    return [int(word) for word in result.stdout.split()]


def test_group_limit_presses(harness, fixtures, each_library, memory_group):
    """Above 85 % of the group's limit free memory goes back at once, without any further call."""
    program = fixtures("hold_and_free.c")
    changes = {"LD_PRELOAD": str(each_library), **NO_IDLE_PURGE}
    environment = harness.environment(**changes)
    free_there = harness.run([program, "190"], environment=environment)
    full, half, empty = resident(free_there)
    assert full >= 190 and half >= 185  # nothing presses: kept for the next call
    memory_group.limit_memory(200 * MIB)
    limited = harness.run([program, "190"], environment=environment, preexec_fn=memory_group.enter)
    full, half, empty = resident(limited)
    assert full >= 190 and half <= 172 and empty <= 172
    ignored = harness.run([program, "190"], preexec_fn=memory_group.enter,
                          environment={**environment, "PRIMALLOC_SOFT_LIMIT": "0"})
    assert resident(ignored)[1] >= 185


def test_group_limit_saves_from_being_killed(harness, fixtures, library, memory_group):
    """Blocks that grow do not fit the holes of those freed before: without pressure, what the holes
    hold would count against the limit."""
    memory_group.limit_memory(128 * MIB)
    script = ("kept = []\n"
              "for size in range(1, 24):\n"
              "    blocks = [bytearray(size << 20) for _ in range(60 // size)]\n"
              "    kept.append(bytearray(300000))\n"
              "    del blocks\n"
              "print(sum(map(len, kept)))\n")
    changes = {"PYTHONMALLOC": "malloc", **NO_IDLE_PURGE}
    result = harness.run_preloaded([PYTHON, "-c", script], changes=changes,
                                   preexec_fn=memory_group.enter)
    assert result.stdout == b"6900000\n"


def test_soft_limit_by_option(harness, fixtures, each_library):
    environment = harness.environment(LD_PRELOAD=str(each_library), PRIMALLOC_SOFT_LIMIT="100M",
                                      **NO_IDLE_PURGE)
    full, half, empty = resident(harness.run([fixtures("hold_and_free.c"), "150"],
                                             environment=environment))
    assert full >= 150 and half <= 102 and empty <= 102


def test_hard_limit_by_option(harness, fixtures, each_library):
    environment = harness.environment(LD_PRELOAD=str(each_library), PRIMALLOC_HARD_LIMIT="100M",
                                      PYTHONMALLOC="malloc")
    refused = harness.run([fixtures("hold_and_free.c"), "150"], environment=environment,
                          check=False)
    assert refused.returncode == 1
    assert 95 <= int(re.fullmatch(rb"refused after (\d+)\n", refused.stdout)[1]) <= 100
    script = ("blocks = []\n"
              "try:\n"
              "    while True: blocks.append(bytearray(700000))\n"
              "except MemoryError: pass\n"
              "count = len(blocks)\n"
              "del blocks[:]\n"
              "again = [bytearray(700000) for _ in range(count - 2)]\n"
              "print(100 < count < 150)\n")
    assert harness.run([PYTHON, "-c", script], environment=environment).stdout == b"True\n"


C_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { char *text = malloc(100); puts(text ? "built" : "no memory"); free(text); }
"""
CXX_SOURCE = """
#include <iostream>
#include <map>
#include <regex>
#include <string>
int main() {
    std::map<std::string, int> numbers{{"one", 1}, {"two", 2}};
    std::cout << std::regex_replace(std::string("built"), std::regex("x"), "y") << "\\n";
}
"""
# What works in a shell after `ulimit -v 262144`; the last of them prove what they built.
LIMITED = {
    "bash": "for i in {1..2000}; do x+=$i; done; echo ${#x} | cat; echo $(seq 100 | sort -rn)",
    "python3": f"{PYTHON} -c 'import json; print(len(json.dumps(list(range(300000)))))'",
    "perl": "perl -e 'my %h; $h{$_} = \"x\" x 50 for 1..50000; print scalar keys %h'",
    "gcc": "gcc -O2 -o c_program main.c && ./c_program",
    "g++": "g++ -O1 -o cxx_program main.cc && ./cxx_program",
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_quarter_gibibyte_of_address_space(harness, library, name):
    """T17"""
    require(name)
    (harness.directory / "main.c").write_text(C_SOURCE)
    (harness.directory / "main.cc").write_text(CXX_SOURCE)
    command = ["bash", "-c", f"ulimit -v 262144 && {LIMITED[name]}"]
    expected = harness.run(command)
    assert expected.stdout
    # Once preloaded before the limit is there, once after.
    assert harness.run_preloaded(command).stdout == expected.stdout
    late = ["bash", "-c", f"ulimit -v 262144 && export LD_PRELOAD='{library}' && {LIMITED[name]}"]
    assert harness.run(late).stdout == expected.stdout


EXHAUSTING = {
    "python3": (PYTHON + " -c '\n"
                "blocks = []\n"
                "try:\n"
                "    while True: blocks.append(bytes(100000))\n"
                "except MemoryError: pass\n"
                "count = len(blocks)\n"
                "del blocks\n"
                "print(count > 500, len([bytes(100000) for _ in range(count // 2)]) > 0)'"),
    "perl": ("perl -e 'my @b; push @b, \"x\" x 100000 while 1' 2>&1 | grep -o 'Out of memory' "
             "| head -1"),
    "bash": "(x=x; while :; do x=$x$x; done) 2>&1 | grep -o 'cannot allocate' | head -1",
}


@pytest.mark.parametrize("name", EXHAUSTING)
def test_exhaustion_is_reported_not_fatal(harness, library, name):
    """T17: each program says so in its own words, as it does on libc's malloc."""
    require(name)
    command = ["bash", "-c", f"ulimit -v 262144 && {EXHAUSTING[name]}"]
    changes = {"PYTHONMALLOC": "malloc"}
    expected = harness.run(command, environment=harness.environment(**changes))
    assert expected.stdout
    assert harness.run_preloaded(command, changes=changes).stdout == expected.stdout


def traced_calls(harness, command, changes, calls: str) -> list[str]:
    require("strace")
    output = harness.directory / "trace"
    settings = [word for name, value in changes.items() for word in ("-E", f"{name}={value}")]
    harness.run(["strace", "-f", "-qq", "-o", output, "-e", f"trace={calls}", *settings, *command])
    return output.read_text().splitlines()


def test_a_small_process_asks_nothing(harness, fixtures, library):
    """T58: neither for processors, nor for the control group, nor for the number of mappings."""
    changes = {"LD_PRELOAD": str(library)}
    calls = traced_calls(harness, ["/bin/true"], changes, "openat,sched_getaffinity")
    assert not [call for call in calls if "/proc/" in call or "/cgroup" in call]
    assert not [call for call in calls if "sched_getaffinity" in call]


def test_a_large_process_looks_at_its_group_once(harness, fixtures, library):
    changes = {"LD_PRELOAD": str(library)}
    program = fixtures("hold_and_free.c")
    calls = traced_calls(harness, [program, "10"], changes, "openat")
    assert not [call for call in calls if "/proc/self/cgroup" in call]
    calls = traced_calls(harness, [program, "300"], changes, "openat")
    assert len([call for call in calls if "/proc/self/cgroup" in call]) == 1
    changes["PRIMALLOC_SOFT_LIMIT"] = "1G"
    calls = traced_calls(harness, [program, "300"], changes, "openat")
    assert not [call for call in calls if "/proc/self/cgroup" in call]


def test_more_than_the_machine_has_is_refused(harness):
    """By the kernel's usual rule, as by glibc: a program that asks for so much is wrong, and hears
    of it then, not when it is killed."""
    if pathlib.Path("/proc/sys/vm/overcommit_memory").read_text() != "0\n":
        pytest.skip("vm.overcommit_memory is not 0")
    script = """
import ctypes
libc = ctypes.CDLL(None)
word, place = ctypes.c_size_t, ctypes.c_void_p
for name, kinds in (('malloc', [word]), ('aligned_alloc', [word] * 2), ('realloc', [place, word])):
    getattr(libc, name).restype, getattr(libc, name).argtypes = place, kinds
libc.free.argtypes = [place]
for shift in range(46, 30, -1):  # what lesser ones have left serves again
    small = libc.malloc(100)
    blocks = [libc.malloc(1 << shift), libc.aligned_alloc(1 << 21, 1 << shift)]
    larger = libc.realloc(small, 1 << shift)
    print(shift, *[block is not None for block in (*blocks, larger)])
    for block in (*blocks, larger or small):
        libc.free(block)
try:
    bytearray(1 << 42)
except MemoryError:
    print('refused')
"""
    plain = harness.run([PYTHON, "-c", script], environment=harness.environment()).stdout
    assert plain.endswith(b"refused\n")
    assert harness.run_preloaded([PYTHON, "-c", script]).stdout == plain
