"""What the kernel and the neighbours see of the heap."""

import re

import pytest

BEHAVES = b"good\n"


def traced(harness, program, *words, **changes):
    """The calls of the memory family that a run made, by all its threads."""
    trace = harness.directory / "trace"
    command = ["strace", "-f", "-e", "trace=madvise,munmap,mremap", "-o", trace, "env",
               f"LD_PRELOAD={harness.library}", *[f"{k}={v}" for k, v in changes.items()],
               program, *words]
    assert harness.run(command).stdout == BEHAVES
    return trace.read_text()


def test_t50_pages_stay_where_they_are(harness, fixtures, need):
    """purge=0 and moves=0: registered memory keeps its pages; by default they go. An mremap without
    a flag only asks what is one mapping."""
    need("strace")
    program = fixtures("behave.c")
    kept = traced(harness, program, "much", PRIMALLOC_PURGE="0", PRIMALLOC_MOVES="0")
    assert "MADV_DONTNEED" not in kept and "MREMAP_" not in kept
    assert "MADV_DONTNEED" in traced(harness, program, "much", PRIMALLOC_TRIM_THRESHOLD="1M")


def test_t50_calloc_takes_no_pages_away(harness, fixtures, need):
    """Of a great block that is bare all pages go instead of being cleared, but not with purge=0."""
    need("strace")
    program = fixtures("behave.c")
    kept = traced(harness, program, "bare", PRIMALLOC_PURGE="0", PRIMALLOC_MOVES="0")
    assert "MADV_DONTNEED" not in kept
    assert "MADV_DONTNEED" in traced(harness, program, "bare", PRIMALLOC_TRIM_THRESHOLD="1G")


def test_t51_freed_pages_are_gone(harness, fixtures, need):
    """Never MADV_FREE, which leaves them in the resident size."""
    need("strace")
    calls = traced(harness, fixtures("behave.c"), "much", PRIMALLOC_TRIM_THRESHOLD="1M")
    assert "MADV_DONTNEED" in calls and "MADV_FREE" not in calls


def test_t52_addresses_have_47_bits(preload, fixtures, each_library):
    assert preload(each_library, fixtures("behave.c"), "addresses").stdout == BEHAVES


def test_t53_core_dumps_leave_reservations_out(preload, library):
    """What is mapped and would be dumped is little; the address map is not."""
    smaps = preload(library, "cat", "/proc/self/smaps").stdout.decode()
    dumped = 0
    for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE)[1:]:
        size = int(re.search(r"^Size: +(\d+)", mapping, re.MULTILINE)[1])
        flags = re.search(r"^VmFlags:(.*)", mapping, re.MULTILINE)[1].split()
        is_anonymous = mapping.split("\n")[0].split()[4] == "0"
        dumped += size if is_anonymous and "dd" not in flags else 0
    assert dumped < 32 << 10


@pytest.mark.parametrize("settings", [{}, {"PRIMALLOC_PURGE_DELAY": "1"}])
def test_t54_careless_programs_live(preload, fixtures, each_library, settings):
    result = preload(each_library, fixtures("behave.c"), "careless", **settings)
    assert result.stdout == BEHAVES


RUNTIMES = {
    "node": ["node", "-e", "console.log(JSON.stringify([...Array(99999).keys()]).length)"],
    "ruby": ["ruby", "-e", "p (1..99999).map(&:to_s).join.size"],
    "php": ["php", "-n", "-r", "echo strlen(serialize(range(1, 99999))), PHP_EOL;"],
    "java": ["java", "-XX:+UseSerialGC", "-Xmx64m", "-version"],
    "python3": ["/usr/bin/python3", "-c", "print(len(repr(list(range(99999)))))"],
}


@pytest.mark.parametrize("name", RUNTIMES)
def test_t56_runtimes(preload, harness, need, library, name):
    """Heaps of their own above ours; tests/preload has more for each of them to do."""
    need(name)
    expected = harness.run(RUNTIMES[name])
    got = preload(library, *RUNTIMES[name])
    assert (got.stdout, got.returncode) == (expected.stdout, 0)
