"""Huge pages by judgement and by option, and what core dumps hold."""

import pathlib
import re

import pytest

MIB = 1024  # KiB
SYSTEM = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
POOL = pathlib.Path("/proc/sys/vm/nr_hugepages")
LINE = re.compile(r"(\w+) huge=(\d+) dumped=(\d+)")


@pytest.fixture
def blocks(harness, fixtures):
    """Runs blocks.c; returns the result and its figures in KiB by line."""
    def run(*words, **changes):
        environment = harness.preloaded(**changes)
        result = harness.run([fixtures("blocks.c"), *words], environment=environment)
        figures = {name: (int(huge), int(dumped))
                   for name, huge, dumped in LINE.findall(result.stdout.decode())}
        return result, figures
    return run


@pytest.fixture
def kernel_gives():
    if not SYSTEM.exists() or "[madvise]" not in SYSTEM.read_text():
        pytest.skip(f"this kernel does not leave huge pages to programs: {SYSTEM}")


def huge(figures, line="taken"):
    return figures[line][0]


def test_small_process_gets_none(blocks):
    _, figures = blocks("2", "1", "dense")
    assert huge(figures) == 0


def first_above(least, measure):
    """What is measured, up to five times: the kernel gives huge pages when it has some to give
    without stalls."""
    for _ in range(5):
        found = measure()
        if found > least:
            break
    return found


def test_dense_blocks_become_huge(blocks, kernel_gives):
    """After the first dense one: so at least some, and never where nothing is dense."""
    found = first_above(0, lambda: huge(blocks("30", "6", "dense")[1]))
    assert 2 * MIB <= found <= 180 * MIB
    _, figures = blocks("60", "6", "sparse")
    assert huge(figures) == 0


def test_what_follows_a_dense_block_may_be_sparse(harness, fixtures):
    """A huge page for the first one, which cannot be known before, and for none of the others."""
    program = fixtures("other_blocks.c", "-fno-builtin")
    found = first_above(0, lambda: int(harness.run_preloaded([program]).stdout))
    assert 0 < found < 4 * MIB


def test_always_and_never(blocks, kernel_gives):
    _, figures = blocks("20", "4", "dense", PRIMALLOC_THP="never")
    assert huge(figures) == 0
    always = {"PRIMALLOC_THP": "always"}
    assert first_above(20 * MIB, lambda: huge(blocks("20", "4", "dense", **always)[1])) > 20 * MIB


def test_glibc_tunable(blocks, kernel_gives):
    tuned = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    assert first_above(20 * MIB, lambda: huge(blocks("20", "4", "dense", **tuned)[1])) > 20 * MIB


def test_empty_pool_is_reported_once(blocks):
    if POOL.exists() and int(POOL.read_text()) > 0:
        pytest.skip("the system has set huge pages aside")
    result, figures = blocks("20", "4", "dense", PRIMALLOC_LARGE_OS_PAGES="1")
    errors = result.stderr.decode()
    assert errors.count("large_os_pages") == 1
    assert "vm.nr_hugepages" in errors
    assert "taken" in figures


def test_pool(blocks):
    """With huge pages set aside, the heap consists of them, says so on demand, and goes on without
    when they are used up."""
    try:
        before = POOL.read_text()
        POOL.write_text("16")
    except OSError:
        pytest.skip("the pool of huge pages cannot be set here")
    try:
        if int(POOL.read_text()) < 16:
            pytest.skip("no memory for huge pages")
        result, _ = blocks("20", "1", "dense", PRIMALLOC_LARGE_OS_PAGES="1", PRIMALLOC_VERBOSE="1")
        assert "the heap are huge pages of the system's pool" in result.stderr.decode()
        result, figures = blocks("20", "4", "dense", "free", PRIMALLOC_LARGE_OS_PAGES="1")
        assert result.stderr.decode().count("goes on with ordinary pages") == 1
        assert "again" in figures
    finally:
        POOL.write_text(before)


def test_freed_memory_is_kept_out_of_core_dumps(blocks):
    _, figures = blocks("10", "20", "dense", "free")
    if figures["taken"][1] < 200 * MIB:
        pytest.skip("this kernel does not tell what it dumps")
    assert figures["freed"][1] < figures["taken"][1] - 180 * MIB
    assert figures["again"][1] >= 200 * MIB
