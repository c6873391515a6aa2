"""Large memory: no page faults for memory that is used again, nothing copied that could be moved,
nothing kept by a process that sits idle, and an end of memory that is survived.

The programs are those of bench/large, at small sizes; what they print is counted by the kernel, so
that the machine's speed does not matter. Each is also run where the answer is known, on libc's
malloc or in a way that must show, since a program that misreports would prove nothing.
"""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

import pytest

from harness import PATIENCE

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "bench" / "workloads"
FIGURE = re.compile(r"^figure (\w+) (\S+)$", re.MULTILINE)
KEEP_CALLS = ["-fno-builtin-malloc", "-fno-builtin-realloc", "-fno-builtin-free"]
PAGE_KIB = 4
LARGE_KIB = 64 << 10
# What a process may fault once and for all, long after its start: code that runs for the first
# time, tables of a processor that it was moved to. The smallest block here has 32 pages.
STRAY_FAULTS = 16


@pytest.fixture(scope="session")
def workload(tmp_path_factory):
    """Builds a program of bench/workloads on first use: workload("doubling") -> path."""
    directory = tmp_path_factory.mktemp("workloads")

    def build(name: str) -> pathlib.Path:
        target = directory / name
        if target.exists():
            return target
        source = next(WORKLOADS.glob(f"{name}.c*"))
        is_c = source.suffix == ".c"
        compiler = ["gcc", "-std=gnu11"] if is_c else ["g++", "-std=c++17", "-fno-allocation-dce"]
        if shutil.which(compiler[0]) is None:
            pytest.skip(f"{compiler[0]} is not installed (tests/apt-packages.txt)")
        subprocess.run([*compiler, "-O2", "-D_GNU_SOURCE", "-pthread", *KEEP_CALLS, "-o", target,
                        source], check=True, timeout=120)
        return target

    return build


def figures(output: bytes) -> dict[str, float]:
    return {name: float(value) for name, value in FIGURE.findall(output.decode())}


def started(library: pathlib.Path | None, command, **changes: str) -> subprocess.Popen:
    """A program under the library, or under libc's malloc; to be waited for with `ended`."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **changes}
    if library:
        environment["LD_PRELOAD"] = str(library)
    return subprocess.Popen([str(word) for word in command], env=environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def ended(process: subprocess.Popen) -> dict[str, float]:
    output, errors = process.communicate(timeout=120 * PATIENCE)
    assert process.returncode == 0, f"{process.args}: {errors.decode()[-500:]}"
    return figures(output)


def measured(library, command, **changes) -> dict[str, float]:
    return ended(started(library, command, **changes))


# ---- memory that is used again ----

@pytest.mark.parametrize("kib", [126, 127, 128, 1024, LARGE_KIB])
def test_no_fault_for_a_block_used_again(workload, library, kib):
    # A fault or so in all may come late, as seen on a busy machine of the largest in three tries of
    # three, but not one a turn.
    turns = 20
    got = measured(library, [workload("touch-turns"), kib, turns])
    assert got["faults_per_turn"] * turns < STRAY_FAULTS


def test_faults_are_counted_exactly(workload):
    """libc's malloc maps a block above its largest threshold anew each time: header and pages."""
    got = measured(None, [workload("touch-turns"), LARGE_KIB, 5])
    assert got["faults_per_turn"] == LARGE_KIB / PAGE_KIB + 1


PAUSED_TURNS = {5: 200, 50: 24, 400: 4}


@pytest.fixture(scope="module")
def paused_runs(workload, library):
    """All at the same time, since they sleep most of theirs."""
    running = {(kib, pause): started(library, [workload("touch-turns"), kib, turns, pause * 1000])
               for kib in (128, 1024, LARGE_KIB) for pause, turns in PAUSED_TURNS.items()}
    return {key: ended(process) for key, process in running.items()}


@pytest.mark.parametrize("pause_ms", PAUSED_TURNS)
@pytest.mark.parametrize("kib", [128, 1024, LARGE_KIB])
def test_no_fault_for_a_block_used_again_after_a_pause(paused_runs, kib, pause_ms):
    faults = paused_runs[kib, pause_ms]["faults_per_turn"] * PAUSED_TURNS[pause_ms]
    assert faults < STRAY_FAULTS


@pytest.mark.parametrize("results", [1, 2])
@pytest.mark.parametrize("advice", ["1", "0"])
def test_no_fault_for_matrix_products(library, advice, results):
    if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True,
                      check=False).returncode != 0:
        pytest.skip("numpy is not there (bench/requirements.txt)")
    command = [sys.executable, ROOT / "bench" / "apps" / "products.py", 1000, 10, results]
    # On a busy machine a product takes longer than free memory waits by default.
    got = measured(library, command, NUMPY_MADVISE_HUGEPAGE=advice, PRIMALLOC_PURGE_DELAY="60s")
    # A thread of OpenBLAS may meet a page of code or stack late; a block of 8 MB faults at least 4
    # huge pages.
    assert got["faults_per_product"] < 1


# ---- memory that nobody uses ----

IDLE_KINDS = ("small", "mixed", "large")


def allowed_mib(way, got):
    """The thread's cache and descriptors do not shrink with the test: at the full size, the row of
    bench/large allows nothing for them."""
    return 8 + (1.15 * got["live_mib"] if way == "phase" else 1.1 * got["live_pages_mib"])


def is_at_rest(way, got):
    return (got["wakeups_per_s"], got["threads"]) == (0, 1) and (
        got["idle_mib"] <= allowed_mib(way, got))


@pytest.fixture(scope="module")
def idle_runs(workload, library):
    """All at the same time. A busy machine holds up the thread that gives memory back, or the
    program while it runs: who is not at rest then gets more time."""
    found = {}
    keys = [(kind, way) for kind in IDLE_KINDS for way in ("phase", "scattered")]
    for idle in (2, 8, 30):
        words = ["128", "--surviving=10", f"--idle={idle}", "--watched=1"]
        running = {key: started(library, [workload("survivors"), *key, *words])
                   for key in keys if key not in found or not is_at_rest(key[1], found[key])}
        found |= {key: ended(process) for key, process in running.items()}
    return found


@pytest.mark.parametrize("way", ["phase", "scattered"])
@pytest.mark.parametrize("kind", IDLE_KINDS)
def test_idle_process_returns_what_it_does_not_need(idle_runs, kind, way):
    """All but what lives, or where that is scattered the pages that it lies in."""
    got = idle_runs[kind, way]
    assert got["idle_mib"] <= allowed_mib(way, got)


@pytest.mark.parametrize("kind", IDLE_KINDS)
def test_idle_process_sleeps(idle_runs, kind):
    got = idle_runs[kind, "phase"]
    assert (got["wakeups_per_s"], got["threads"]) == (0, 1)


def test_wake_ups_and_threads_are_counted(workload, fixtures):
    ticking = fixtures("ticking_thread.c", "-shared")
    got = measured(ticking, [workload("survivors"), "large", "phase", 32, "--surviving=10",
                             "--idle=0", "--watched=1"])
    assert got["threads"] == 2
    assert got["wakeups_per_s"] >= 1


def test_live_pages_are_counted_exactly(workload):
    """Where everything survives, what is resident and what holds live bytes are the same."""
    got = measured(None, [workload("survivors"), "small", "scattered", 64, "--percent=100",
                          "--idle=0", "--watched=1"])
    assert 0.99 < got["idle_per_live_pages"] < 1.02


def test_resident_size_is_read_exactly(workload):
    """What the program reads of itself is what others read of it while it sleeps."""
    process = started(None, [workload("survivors"), "small", "phase", 64, "--surviving=10",
                             "--idle=1", "--watched=1"])
    readings = []
    while process.poll() is None:
        try:
            rollup = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except OSError:
            break
        resident = re.search(r"^Rss: +(\d+) kB$", rollup, re.MULTILINE)
        readings += [int(resident[1])] if resident else []
        time.sleep(0.02)
    got = ended(process)
    seen_mib = statistics.mode(readings) / 1024
    assert seen_mib == pytest.approx(got["idle_mib"] + got["table_mib"], abs=0.25)


# ---- zeros ----

@pytest.mark.parametrize("largest", [12, 15, 18, 21])
def test_zeroed_memory_that_is_not_used_is_not_touched(workload, each_library, largest):
    """The tables come to more than 40 MiB. Each begins in a page of its own or next to another."""
    tables = (20 << 20) // (3 << largest - 2)
    got = measured(each_library, [workload("zeroed-tables"), 2, tables, 0, 0, largest - 1, largest])
    assert got["kept_mib"] < 2


def test_zeroed_memory_that_is_touched_is_counted(workload):
    got = measured(None, [workload("zeroed-tables"), 2, 6000, 0, 1, 12, 13])
    assert got["kept_mib"] > 30


# ---- growth ----

def test_large_blocks_are_moved_not_copied(workload, library):
    got = measured(library, [workload("doubling"), 4, 256 << 10])
    assert got["copied_mib"] == 0
    assert got["peak_per_final"] <= 1.05


def test_copies_are_counted(workload):
    got = measured(None, [workload("doubling"), 4, 256 << 10, "--way=copy"])
    assert got["copied_mib"] == pytest.approx(255.5, rel=0.01)


@pytest.mark.parametrize("way", ["realloc", "copy"])
def test_growth_in_many_threads(workload, library, way):
    got = measured(library, [workload("growth-threads"), way, 64, 8192, 2])
    assert got["peak_per_live"] <= 1.3


# ---- the end of memory ----

def test_full_table_of_mappings(workload, each_library):
    assert measured(each_library, [workload("exhaustion"), "maps"])["served"] > 0


def test_exhausted_address_space(workload, each_library):
    """T17: NULL with ENOMEM, and what was freed can be had again."""
    command = ["bash", "-c", 'ulimit -v 262144 && exec "$@"', "limited", workload("exhaustion"),
               "address-space"]
    assert measured(each_library, command)["had_mib"] > 128
