"""Little programs with one fault each (tests/misuse), at every level of checks; and programs
without fault, which nothing may be said of."""

import pathlib
import re
import signal
import subprocess

import pytest

from harness import require

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "misuse" / "misuse.cc"
ABORTED = -signal.SIGABRT


@pytest.fixture(scope="module")
def misuse(tmp_path_factory):
    require("g++")
    program = tmp_path_factory.mktemp("misuse") / "misuse"
    subprocess.run(["g++", "-std=c++17", "-O1", "-g", "-w", "-fno-builtin", "-o", program, SOURCE,
                    "-pthread"], check=True, timeout=120)
    return program


def cases(program):
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    return [line.split("\t") for line in listed.stdout.splitlines()]


def run(harness, command, check=False, **changes):
    return harness.run_preloaded(command, changes=changes, check=check)


@pytest.mark.parametrize("hardened", ["0", "1"])
def test_each_is_caught_with_the_right_sentence(harness, misuse, hardened):
    """MALLOC_CHECK_=3: one screen that begins with the sentence, then abort. A hardened heap has a
    line of its own for a pointer that is not from the heap."""
    table = cases(misuse)
    assert len(table) >= 30
    wrong = []
    for name, sentence in table:
        result = run(harness, [misuse, name], MALLOC_CHECK_="3", PRIMALLOC_HARDENED=hardened)
        text = result.stderr.decode()
        if result.returncode != ABORTED or not text.startswith(f"primalloc: {sentence}\n"):
            wrong.append((name, result.returncode, text[:200]))
        elif text.count("primalloc: ") > 1 + int(hardened) or len(text.splitlines()) > 50:
            wrong.append((name, "more than one screen", text))
    assert not wrong


def test_calloc_leaves_pages_untouched(harness):
    """A table that is large and sparse takes no more memory with checks than without."""
    script = """
import ctypes
calloc = ctypes.CDLL(None).calloc
calloc.argtypes, calloc.restype = (ctypes.c_size_t, ctypes.c_size_t), ctypes.c_void_p
block = calloc(1 << 20, 1 << 10)
resident = int(open("/proc/self/statm").read().split()[1]) * 4096
print(ctypes.string_at(block + (1 << 29), 3), resident < 1 << 28)
"""
    result = run(harness, ["python3", "-c", script], check=True, MALLOC_CHECK_="3")
    assert result.stdout == b"b'\\x00\\x00\\x00' True\n"


def test_level_1_reports_and_goes_on(harness, misuse):
    """Each fault once."""
    wrong = []
    for name, sentence in cases(misuse):
        result = run(harness, [misuse, name], MALLOC_CHECK_="1")
        if (result.returncode != 0 or result.stdout != b"survived\n" or
                f"primalloc: {sentence}\n" not in result.stderr.decode() or
                result.stderr.count(b"primalloc: ") != 1):
            wrong.append((name, result.returncode, result.stdout, result.stderr[:200]))
    assert not wrong


def test_level_0_is_silent(harness, misuse):
    wrong = []
    for name, _ in cases(misuse):
        result = run(harness, [misuse, name], MALLOC_CHECK_="0")
        if (result.returncode, result.stdout, result.stderr) != (0, b"survived\n", b""):
            wrong.append((name, result.returncode, result.stderr[:200]))
    assert not wrong


def test_level_2_aborts_without_a_word(harness, misuse):
    wrong = []
    for name, _ in cases(misuse):
        result = run(harness, [misuse, name], MALLOC_CHECK_="2")
        if (result.returncode, result.stderr) != (ABORTED, b""):
            wrong.append((name, result.returncode, result.stderr[:200]))
    assert not wrong


def test_our_own_names_of_the_levels(harness, misuse):
    for word, status, reports in (("off", 0, 0), ("ignore", 0, 0), ("report", 0, 1),
                                  ("abort", ABORTED, 0), ("full", ABORTED, 1)):
        result = run(harness, [misuse, "free_of_static"], PRIMALLOC_CHECK=word)
        assert result.returncode == status, word
        assert result.stderr.count(b"primalloc: ") == reports, word


def test_report(harness, misuse):
    """What, address, size, class, this call's stack, and those of allocation and free."""
    text = run(harness, [misuse, "double_free"], MALLOC_CHECK_="1").stderr.decode()
    frame = r"(?:    \S+\(\+0x[0-9a-f]+\) \[0x[0-9a-f]+\]\n)+"
    pattern = (r"primalloc: double free: this block is free already\n"
               r"  process     \d+ \(misuse\)\n"
               r"  pointer     (0x[0-9a-f]+)\n"
               rf"  this call   free\n{frame}"
               r"  block       \1, 100 bytes, in size class \d+, free\n"
               rf"  allocated   by malloc\n{frame}"
               rf"  freed       by free\n{frame}"
               r"(?:  (?:before|behind) it   0x.*\n)*"
               r"  now         the program goes on\n")
    assert re.fullmatch(pattern, text), text
    assert text.count(f"{misuse}(+0x") >= 3


DEEP = """
#include <stdlib.h>
static void *go_down(unsigned depth, void *block) {
    void *result = depth ? go_down(depth - 1, block) : block ? (free(block), block) : malloc(9);
    __asm__ volatile("" : "+r"(result));
    return result;
}
int main(void) {
    void *block = go_down(20, NULL);
    go_down(20, block);
    return go_down(20, block) != block;
}
"""


def test_a_report_with_long_paths_is_whole(harness, tmp_path):
    require("gcc")
    directory = tmp_path.joinpath(*["long" * 40] * ((470 - len(str(tmp_path))) // 161))
    directory.mkdir(parents=True)
    program = directory / "deep"
    subprocess.run(["gcc", "-O1", "-w", "-fno-builtin", "-fno-optimize-sibling-calls", "-x", "c",
                    "-o", program, "-"], input=DEEP.encode(), check=True, timeout=60)
    text = run(harness, [program], MALLOC_CHECK_="1").stderr.decode()
    assert text.count(f"{program}(+0x") == 30
    assert text.endswith("  now         the program goes on\n")


def test_stacks_lead_to_the_lines(harness, misuse):
    """The offsets are what addr2line wants."""
    require("addr2line")
    text = run(harness, [misuse, "free_inside_large"], MALLOC_CHECK_="1").stderr.decode()
    offsets = re.findall(rf"{re.escape(str(misuse))}\(\+(0x[0-9a-f]+)\)", text)
    lines = harness.run(["addr2line", "-f", "-e", misuse, *offsets]).stdout.decode()
    assert "misuse.cc" in lines
    assert "main" in lines.split()


def test_closed_standard_error(harness, misuse, tmp_path):
    """T04: a report never lands in the file that got number 2."""
    target = tmp_path / "precious"
    result = harness.run(
        ["bash", "-c", f'exec 2>&- ; exec {misuse} double_free > {target}'],
        environment=harness.preloaded(MALLOC_CHECK_="1"))
    assert result.returncode == 0
    assert target.read_text() == "survived\n"


@pytest.mark.parametrize("case", ["in_a_row", "with_others_between", "across_slabs",
                                  "in_two_threads", "of_whole_slabs", "of_medium"])
def test_double_free_without_a_level(harness, fixtures, each_library, case):
    """Told once and counted, when the block comes back to its slab; the slab has it once."""
    program = fixtures("double_free.c", "-w", "-fno-builtin", "-pthread")
    environment = harness.environment(LD_PRELOAD=str(each_library), PRIMALLOC_SHOW_STATS="1")
    result = harness.run([program, case], environment=environment, timeout=30)
    assert result.stdout == b"apart\n"
    text = result.stderr.decode()
    told = re.findall(r"^primalloc: free of 0x[0-9a-f]+, which was free already; "
                      r"MALLOC_CHECK_=3 tells where$", text, re.MULTILINE)
    assert len(told) == 1, text
    assert int(re.search(r"double_frees +(\d+)", text)[1]) >= 1


GUARDED = {"PRIMALLOC_GUARDED": "1", "PRIMALLOC_GUARDED_BYTES": "1", "PRIMALLOC_GUARDED_RATE": "0",
           "PRIMALLOC_GUARDED_SLOTS": "2000"}


@pytest.mark.parametrize("name", ["free_inside", "free_before_block", "realloc_inside"])
def test_blocks_between_forbidden_pages(harness, misuse, name):
    """Of which no address but the first is known: still the level says what follows."""
    result = run(harness, [misuse, name], MALLOC_CHECK_="3", **GUARDED)
    assert result.returncode == ABORTED
    assert result.stderr.startswith(
        b"primalloc: this pointer leads into the heap, but to no block\n")


CLEAN = {
    "python3": ["python3", "-c", "import json, re, threading, subprocess\n"
                "data = {str(i): list(range(i % 50)) for i in range(5000)}\n"
                "assert json.loads(json.dumps(data)) == data\n"
                "threads = [threading.Thread(target=sorted, args=(range(9999),)) for _ in 'abcd']\n"
                "[t.start() for t in threads]; [t.join() for t in threads]\n"
                "assert subprocess.run(['true']).returncode == 0"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 999} .= \"x$_\" for 1..50000; print scalar keys %h"],
    "gcc": ["gcc", "-O2", "-x", "c++", "-c", "-o", "/dev/null", SOURCE],
    "sqlite3": ["sqlite3", ":memory:", "create table t(a, b); with recursive c(x) as (select 1 "
                "union all select x + 1 from c limit 20000) insert into t select x, hex(x) from c; "
                "create index i on t(b); select count(*), max(b) from t where b > '5';"],
    "git": ["git", "--version"],
    "bash": ["bash", "-c", "for i in {1..300}; do x=$(echo $i); a[i]=$x; done; echo ${#a[@]}"],
    "sort": ["sort", "-S", "1M", "--parallel=4", SOURCE],
    "redis-server": ["redis-server", "--version"],
}


@pytest.mark.parametrize("program", CLEAN)
def test_programs_without_fault(harness, program):
    require(program)
    result = run(harness, CLEAN[program], check=True, MALLOC_CHECK_="3")
    assert b"primalloc" not in result.stderr


def test_blocks_that_a_handler_made_room_for(harness, fixtures):
    """The library's own operator allocates these, whichever the program called."""
    result = run(harness, [fixtures("nothrow_retries.cc")], check=True, MALLOC_CHECK_="3",
                 PRIMALLOC_HARD_LIMIT="120M")
    assert (result.stdout, result.stderr) == (b"4\n", b"")


def test_memory_that_was_lent_is_left_alone(harness, fixtures):
    """Once the heap over it is deleted and its last block freed the program may unmap it."""
    result = run(harness, [fixtures("lent_memory.c")], check=True, MALLOC_CHECK_="3")
    assert result.stdout == b"good\n" and result.stderr == b""


def test_a_block_of_a_full_heap_shrinks(harness, fixtures):
    """There is no room for another block with its zones: it stays, and the zone moves."""
    program = fixtures("full_heap.c")
    result = run(harness, [program], MALLOC_CHECK_="3")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"good\n", b"")
    result = run(harness, [program, "overrun"], MALLOC_CHECK_="3")
    assert result.returncode == ABORTED
    assert result.stderr.startswith(b"primalloc: memory behind the block was overwritten\n")


@pytest.mark.parametrize("settings, is_told", [
    ({"CHECK": "report"}, False),
    ({"PROFILE": "/nonexistent/h.pb.gz,rate=1,bytes=1"}, True),
    ({"PROFILE": "/nonexistent/h.pb.gz,rate=1,bytes=1", "LEAK_CHECK": "normal"}, True),
])
def test_exit_in_a_handler_inside_a_call_waits_for_nobody(harness, fixtures, settings, is_told):
    """The call that the signal interrupts holds the lock that a last look wants."""
    changes = {f"PRIMALLOC_{name}": value for name, value in settings.items()}
    result = harness.run_preloaded([fixtures("exit_inside.c")], changes=changes, check=False,
                                   timeout=60)
    line = b"primalloc: no profile, no leak check: a signal's handler called exit inside malloc\n"
    assert result.returncode == 7
    assert (line in result.stderr) == is_told
