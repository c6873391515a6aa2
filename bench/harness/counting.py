"""Counts that valgrind gives and the machine's load does not change: misses of a simulated cache by
section of a program, and the instructions of each single call."""

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from .environment import BenchError
from .trial import clean_environment

# A first-level cache as most processors have it; the same everywhere, so that counts compare.
CACHE = ("--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64")
THREADS_MOST = "--max-threads=1100"
TOTALS = re.compile(r"^totals: (.*)$", re.MULTILINE)
TURN = re.compile(rb"^--.* SCHED\[(\d+)\]: +acquired lock")
EVENTS = re.compile(r"^events: (.*)$", re.MULTILINE)


def environment_of(allocator, assignments=()):
    """The environment of a program that is started directly, without the launcher."""
    return clean_environment() | dict(one.split("=", 1)
                                      for one in (*assignments, *allocator.assignments()))


def check_valgrind():
    if not shutil.which("valgrind"):
        raise BenchError("valgrind is not installed; counts of misses and instructions need it")


@contextmanager
def section_dumps(words, allocator, *options):
    """(what a program prints, [callgrind's dump of each of its sections]); sections begin at calls
    of section_boundary()."""
    with tempfile.TemporaryDirectory(prefix="primalloc-counting-") as scratch:
        dump = Path(scratch) / "dump"
        answer = subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", *options, "--dump-before=section_boundary",
             f"--callgrind-out-file={dump}", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment_of(allocator), text=True, check=False)
        dumps = []
        # Dump 1 is what came before the first section; the last section is in the last dump.
        while (part := Path(f"{dump}.{len(dumps) + 2}")).exists():
            dumps.append(part)
        if answer.returncode != 0 or not dumps:
            last = "\n".join(answer.stderr.strip().splitlines()[-3:]) or "no counts"
            raise BenchError(f"{Path(words[0]).name} does not run under callgrind with "
                             f"{allocator.name}: {last}")
        yield answer.stdout, dumps


def sections(words, allocator):
    """[{event: count}] of the program's sections."""
    with section_dumps(words, allocator, THREADS_MOST, *CACHE) as (_, dumps):
        texts = [dump.read_text() for dump in dumps]
    return [dict(zip(EVENTS.search(text).group(1).split(),
                     map(int, TOTALS.search(text).group(1).split()))) for text in texts]


def first_level_misses(section):
    """Of data: what was neither read nor written in the first-level cache. Trailing zeroes are not
    in a dump."""
    return section.get("D1mr", 0) + section.get("D1mw", 0)


def symbol_addresses(program, names):
    lines = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.splitlines()
    found = {line.split()[-1]: int(line.split()[0], 16) for line in lines if line[0] != " "}
    return [b"%08x" % found[name] for name in names]


def call_lengths(words, allocator):
    """{"malloc": [instructions of each call], "free": the same} of bench/workloads/call-lengths.

    Lackey writes a line for each instruction; those between a begin and the end are the call's, but
    for other threads': what valgrind tells of its turns says whose an instruction is.
    """
    malloc, free, end = symbol_addresses(words[0], ["malloc_begins", "free_begins", "call_ends"])
    lengths = {malloc: [], free: []}
    reader, writer = os.pipe()
    with subprocess.Popen(
            ["valgrind", "-q", "--tool=lackey", "--basic-counts=no", "--trace-mem=yes",
             "--trace-sched=yes", f"--log-fd={writer}", *words], pass_fds=[writer],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env=environment_of(allocator)) as process:
        os.close(writer)
        kind, length, thread, caller = None, 0, None, None
        with os.fdopen(reader, "rb", buffering=1 << 20) as trace:
            for line in trace:
                if line[:1] != b"I":
                    if line[:1] == b"-" and (turn := TURN.match(line)):
                        thread = turn.group(1)
                    continue
                address = line[3:11]
                if kind is None:
                    if address in lengths:
                        kind, length, caller = address, 0, thread
                elif thread != caller:
                    continue
                elif address == end:
                    lengths[kind].append(length)
                    kind = None
                else:
                    length += 1
    if process.returncode != 0 or not lengths[malloc]:
        raise BenchError(f"{words[0]} does not run under lackey with {allocator.name}")
    return {"malloc": lengths[malloc], "free": lengths[free]}
