"""Hardened mode: each attack of fixtures/hardened.c works on the default heap, which trusts the
program, and fails on the hardened one."""

import signal

import pytest

# Attack: what the hardened heap says; None where it just does not work.
ATTACKS = {
    "double-free": "freed before: free of 0x",
    "double-free-later": "freed before: free of 0x",
    "double-free-large": "no block, or freed before: free of 0x",
    "interior": "no block: free of 0x",
    "interior-large": "no block, or freed before: free of 0x",
    "realloc-interior-large": "no block, or freed before: realloc of 0x",
    "double-free-heap": "no block, or freed before: free of 0x",
    "foreign": "no block, or freed before: free of 0x",
    "realloc-freed": "freed before: realloc of 0x",
    "written-after-free": "written after free: malloc of 0x",
    "link": None,
    "order": None,
    "siblings": None,
    "siblings-threads": None,
    "reuse": None,
    "secret": None,
}


@pytest.fixture
def attack(harness, fixtures, each_library):
    program = fixtures("hardened.c")

    def run(name, **variables):
        environment = harness.preloaded(LD_PRELOAD=str(each_library), **variables)
        return harness.run([program, name], environment=environment, check=False)

    return run


@pytest.mark.parametrize("name", ATTACKS)
def test_hardened(attack, name):
    result = attack(name, PRIMALLOC_HARDENED="1")
    text = result.stderr.decode()
    if ATTACKS[name]:
        assert text.startswith("primalloc: " + ATTACKS[name]), (text, result.stdout)
        assert result.returncode == -signal.SIGABRT
    else:
        assert (result.returncode, result.stdout, text) == (0, b"held\n", "")


def test_checks_know_where_hardened_blocks_begin(attack):
    for _ in range(5):  # where a slab begins is a throw
        text = attack("interior", PRIMALLOC_HARDENED="1", PRIMALLOC_CHECK="report").stderr.decode()
        assert text.startswith("primalloc: this pointer leads into a block, not to its beginning")


def test_moved_blocks_wait(attack):
    """Where the pages of the block that was left lie is a throw, too: some tries."""
    for _ in range(6):
        assert attack("moved", PRIMALLOC_HARDENED="1").stdout == b"held\n"


@pytest.mark.parametrize("name", ["double-free", "interior", "interior-large",
                                  "realloc-interior-large", "double-free-heap", "realloc-freed",
                                  "written-after-free"])
def test_report_and_go_on(attack, name):
    result = attack(name, PRIMALLOC_HARDENED="1", PRIMALLOC_HARDENED_GO_ON="1")
    assert result.returncode == 0
    assert result.stderr.decode().startswith("primalloc: " + ATTACKS[name])
    if name in ("double-free", "realloc-freed", "interior-large", "realloc-interior-large"):
        assert result.stdout == b"held\n"


@pytest.mark.parametrize("name", ["foreign", "double-free-heap"])
def test_what_is_no_block_is_counted(attack, tmp_path, name):
    line = tmp_path / "stats"
    attack(name, PRIMALLOC_HARDENED="1", PRIMALLOC_HARDENED_GO_ON="1",
           PRIMALLOC_STATS_OUTPUT=str(line))
    assert line.read_text().endswith(" foreign=1\n")


@pytest.mark.parametrize("name", [
    "link", "order", "siblings", "siblings-threads", "reuse", "secret", "walk", "interior",
    "interior-large", "foreign"])
def test_default_heap_trusts(harness, fixtures, name):
    """The attacks are real ones: without the mode they work."""
    result = harness.run([fixtures("hardened.c"), name], environment=harness.preloaded())
    assert (result.stdout, result.stderr) == (b"fooled\n", b"")


def test_guard_slices(attack):
    """One slab in eight has a guard, and the walk comes through about 27: few end well."""
    codes = [attack("walk", PRIMALLOC_HARDENED="1").returncode for _ in range(8)]
    assert codes.count(-signal.SIGSEGV) >= 5 and set(codes) <= {0, -signal.SIGSEGV}


@pytest.mark.parametrize("name", ["beyond-large", "beyond-large-grown", "beyond-large-shrunk"])
def test_guards_behind_large_blocks(attack, name):
    result = attack(name, PRIMALLOC_HARDENED="1")
    assert (result.returncode, result.stdout) == (-signal.SIGSEGV, b"inside\n")


def test_calloc_after_large_blocks(attack):
    """Their guards' slices are not zero when the blocks' pages have moved away."""
    for _ in range(3):
        result = attack("calloc", PRIMALLOC_HARDENED="1")
        assert (result.returncode, result.stdout, result.stderr) == (0, b"held\n", b"")


def test_calloc_leaves_pages_untouched(attack):
    assert attack("sparse", PRIMALLOC_HARDENED="1").stdout == b"held\n"


def test_memory_of_blocks_that_moved(attack):
    """It serves the next ones, though guards lay behind those that left it."""
    assert attack("grown-twice", PRIMALLOC_HARDENED="1").stdout == b"held\n"


@pytest.mark.parametrize("command, output", [
    (["python3", "-c", "print(sum(len(str(i)) for i in range(20000)))"], b"88890\n"),
    (["perl", "-e", "print join(',', map { $_ x 2 } 1 .. 3), qq(\\n)"], b"11,22,33\n"),
    (["sort", "--parallel=4", "/usr/share/dict/words", "/dev/null"], None),
])
def test_real_programs(harness, command, output):
    result = harness.run(command, environment=harness.preloaded(PRIMALLOC_HARDENED="1"),
                         check=False)
    assert result.stderr == b"" or b"primalloc" not in result.stderr
    assert output is None or result.stdout == output
