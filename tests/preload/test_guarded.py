"""Guarded sampling: each fault is caught where it happens, clean programs run clean."""

import re
import resource
import signal

import pytest

EVERY = {"PRIMALLOC_GUARDED": "1", "PRIMALLOC_GUARDED_BYTES": "1", "PRIMALLOC_GUARDED_RATE": "0",
         "PRIMALLOC_GUARDED_SLOTS": "2000"}
SEGV = -signal.SIGSEGV

FAULTS = {
    "overrun": ("overrun", "write of", "1 byte beyond the end of the block at", SEGV),
    "overrun-read": ("overrun", "read of", "3 bytes beyond the end of the block at", SEGV),
    "underrun": ("underrun", "write of", "1 byte before the block at", SEGV),
    "use-after-free": ("use after free", "read of", "5 bytes into the freed block at", SEGV),
    "double-free": ("double free", "free of", "0 bytes into the freed block at", 0),
    "invalid-free": ("invalid free", "free of", "8 bytes into the block at", 0),
    "changed": ("changed bytes, found when freeing", "write of", "3 bytes beyond the end of", 0),
    "small-stack": ("overrun", "write of", "1 byte beyond the end of the block at", SEGV),
    "filtered": ("overrun", "write of", "1 byte beyond the end of the block at", SEGV),
}


@pytest.fixture
def guarded(harness, fixtures):
    program = fixtures("guarded.c")

    def run(*words, library=None, preload=None, **variables):
        environment = harness.preloaded(**{**EVERY, **variables})
        if preload:
            environment["LD_PRELOAD"] = preload
        elif library:
            environment["LD_PRELOAD"] = str(library)
        return harness.run([program, *words], environment=environment, check=False)

    return run


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_caught(guarded, each_library, name):
    kind, verb, place, status = FAULTS[name]
    result = guarded(name, library=each_library)
    text = result.stderr.decode()
    assert result.returncode == status, text
    head = text.splitlines()[0]
    assert head.startswith(f"primalloc: {kind} in process "), text
    assert f": {verb} 0x" in head and place in head and "of 48 bytes" in head, text
    assert "  allocated here:\n    #0 0x" in text
    assert ("  freed before, here:" in text) == (name in ("use-after-free", "double-free"))
    # The program's own frames come first, and there are some.
    assert all("guarded+0x" in stack.split("\n")[1] for stack in text.split("here:")[1:]), text
    assert len(text.splitlines()) <= 50, "more than a screen"


def test_core_dumps_hold_the_blocks(harness):
    """A debugger shows a block's zeros otherwise, whatever was in it."""
    smaps = harness.run(["cat", "/proc/self/smaps"], environment=harness.preloaded(**EVERY))
    mappings = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps.stdout.decode(), flags=re.MULTILINE)
    pages = [text for before, text in zip(mappings[1:], mappings[2:])
             if " ---p " in before and " rw-p " in text and "Size:                  4 kB" in text]
    assert len(pages) > 3
    assert not [text for text in pages if " dd" in text]


def test_clean_program(guarded, each_library):
    result = guarded(library=each_library)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"clean\n", b"")


@pytest.mark.parametrize("name", ["overrun", "use-after-free"])
def test_off_nothing_is_caught(guarded, name):
    result = guarded(name, PRIMALLOC_GUARDED="0")
    assert b"primalloc" not in result.stderr


@pytest.mark.parametrize("name", ["overrun", "underrun", "use-after-free"])
def test_going_on(guarded, name):
    result = guarded(name, PRIMALLOC_GUARDED_GO_ON="1")
    assert (result.returncode, result.stdout) == (0, b"clean\n")
    assert result.stderr.startswith(b"primalloc: " + FAULTS[name][0].encode())


def test_child_of_fork(guarded):
    result = guarded("in-child")
    assert result.stdout == b"status 11\nclean\n"
    assert result.stderr.startswith(b"primalloc: overrun in process ")


@pytest.mark.parametrize("name", ["null", "killed"])
def test_other_faults_stay_what_they_are(guarded, name):
    result = guarded(name)
    assert (result.returncode, result.stderr) == (SEGV, b"")


def test_handler_set_before_is_told(guarded, fixtures, library):
    early = fixtures("guarded.c", "-shared", "-DEARLY", output="early_handler.so")
    result = guarded("overrun", preload=f"{library} {early}")
    assert (result.returncode, result.stdout) == (7, b"the program's own handler\n")
    assert result.stderr.startswith(b"primalloc: overrun in process ")


def test_handler_set_later_takes_over(guarded):
    result = guarded("handler")
    assert (result.returncode, result.stdout) == (7, b"the program's own handler\n")


@pytest.mark.parametrize("limit_mib", [40, 300])
def test_limited_address_space(harness, fixtures, limit_mib):
    """Where there is no room for the pool, the program runs without; else faults are caught."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (limit_mib << 20, limit_mib << 20))

    result = harness.run([fixtures("guarded.c")], environment=harness.preloaded(**EVERY),
                         preexec_fn=limit, check=False)
    assert (result.returncode, result.stdout) == (0, b"clean\n")
    result = harness.run([fixtures("guarded.c"), "overrun"],
                         environment=harness.preloaded(**EVERY), preexec_fn=limit, check=False)
    assert result.stderr.startswith(b"primalloc: overrun in process ")


@pytest.mark.parametrize("least", [9, 12, 16])
def test_tiny_blocks_are_aligned(guarded, least):
    """More than 8 is 16: there are no alignments in between."""
    result = guarded("tiny", PRIMALLOC_MIN_ALIGN=str(least))
    assert result.stdout == b"misaligned 0 0\nclean\n"


def test_default_rate_is_bounded(guarded):
    """At most 50 a second: in so short a run only a few blocks are placed, so that a fault in one
    certain block is most likely missed, and the program just runs."""
    result = guarded(PRIMALLOC_GUARDED_RATE="50", PRIMALLOC_GUARDED_SLOTS="128")
    assert (result.returncode, result.stdout) == (0, b"clean\n")


def test_a_clock_that_was_set_back_ends_nothing(harness, fixtures):
    changes = {"PRIMALLOC_GUARDED": "1", "PRIMALLOC_GUARDED_BYTES": "1"}
    result = harness.run([fixtures("clock_set_back.c")], environment=harness.preloaded(**changes))
    assert result.stdout in (b"guarded 0\n", b"skipped\n")


@pytest.mark.parametrize("slots", ["16384", "65536"])
def test_slots_leave_mappings(harness, fixtures, slots):
    """Each is two of the kernel's mappings, of which a process may have 65,530."""
    environment = harness.preloaded(**{**EVERY, "PRIMALLOC_GUARDED_SLOTS": slots})
    result = harness.run([fixtures("guarded_many.c", "-pthread")], environment=environment,
                         check=False)
    assert (result.returncode, result.stdout) == (0, b"clean\n")


@pytest.mark.parametrize("command, output", [
    (["python3", "-c", "print(sum(len(str(i)) for i in range(2000)))"], b"6890\n"),
    (["perl", "-e", "print join(',', map { $_ x 2 } 1 .. 3), qq(\\n)"], b"11,22,33\n"),
])
def test_real_programs(harness, command, output):
    for variables in ({}, {"PRIMALLOC_GUARDED_BYTES": "4K", "PRIMALLOC_GUARDED_SLOTS": "128"}):
        environment = harness.preloaded(**{**EVERY, **variables})
        result = harness.run(command, environment=environment)
        assert (result.stdout, result.stderr) == (output, b"")
