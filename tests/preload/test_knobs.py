"""glibc's settings under the preload, with glibc itself beside it where that can be compared."""

import pytest

from harness import PATIENCE

PYTHON = "/usr/bin/python3"


@pytest.fixture
def knobs(harness, fixtures, library):
    """Runs fixtures/knobs.c: knobs("verb", number, ..., preload=True, VARIABLE="value") -> what it
    printed, as a dictionary of numbers and words."""
    program = fixtures("knobs.c")

    def run(*words, preload=True, **variables):
        changes = {"LD_PRELOAD": str(library)} if preload else {}
        environment = harness.environment(**changes, **{k: str(v) for k, v in variables.items()})
        result = harness.run([program, *words], environment=environment)
        assert result.stderr == b"" or "PRIMALLOC_VERBOSE" in variables, result.stderr
        run.errors = result.stderr.decode()
        pairs = dict(line.split("=", 1) for line in result.stdout.decode().splitlines())
        return {name: value if name in FILLED else int(value) for name, value in pairs.items()}

    return run


M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX = 1, -1, -2, -3, -4
M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX = -5, -6, -7, -8

FILLED = {"fresh": "00", "new": "5a", "kept": "11", "grown": "5a", "zeroed": "00",
          "zeroed_again": "00", "aligned": "5a", "freed": "a5"}


@pytest.mark.parametrize("preload", [False, True], ids=["glibc", "primalloc"])
@pytest.mark.parametrize("size", [2000, 40000, 900000])
@pytest.mark.parametrize("way", ["variable", "tunable", "mallopt"])
def test_perturb(knobs, way, size, preload):
    """Sizes above the 1032 bytes that glibc's cache of threads leaves as they are; none of them
    mapped by glibc, which unmaps such blocks rather than fill them."""
    variables, words = {
        "variable": ({"MALLOC_PERTURB_": 0xa5, "MALLOC_MMAP_MAX_": 0}, []),
        "tunable": ({"GLIBC_TUNABLES": "glibc.malloc.perturb=0xa5:glibc.malloc.mmap_max=0"}, []),
        "mallopt": ({"MALLOC_MMAP_MAX_": 0}, ["mallopt", M_PERTURB, 0xa5]),
    }[way]
    printed = knobs(*words, "bytes", size, preload=preload, **variables)
    printed.pop("mallopt", None)
    assert printed == FILLED


@pytest.mark.parametrize("size", [100, 1000, 1500, 200000, 900000])
def test_perturb_fills_every_size(knobs, size):
    assert knobs("bytes", size, PRIMALLOC_PERTURB=0xa5) == FILLED


def test_perturb_ends(knobs):
    """mallopt(M_PERTURB, 0) gives the fast path back: nothing is filled any more."""
    printed = knobs("mallopt", M_PERTURB, 0, "bytes", 2000, MALLOC_PERTURB_=0xa5)
    assert printed["kept"] == "11" and printed["freed"] != "a5" and printed["aligned"] != "5a"


@pytest.mark.parametrize("parameter, value", [
    (M_MXFAST, 0), (M_MXFAST, 160), (M_MXFAST, 161), (M_MXFAST, -1), (M_TRIM_THRESHOLD, -1),
    (M_TRIM_THRESHOLD, 1 << 20), (M_TOP_PAD, 0), (M_TOP_PAD, 1 << 20), (M_MMAP_THRESHOLD, 1 << 30),
    (M_MMAP_MAX, 0), (M_MMAP_MAX, -1), (M_CHECK_ACTION, 3), (M_PERTURB, 0x3a5),
    (M_ARENA_TEST, 0), (M_ARENA_TEST, 8), (M_ARENA_MAX, 0), (M_ARENA_MAX, 1), (M_ARENA_MAX, -1),
])
def test_mallopt_returns_what_glibc_returns(knobs, parameter, value):
    words = "mallopt", parameter, value
    assert knobs(*words) == knobs(*words, preload=False)


def settings_of(knobs, **variables):
    """What PRIMALLOC_VERBOSE tells: {option: (value, source)}."""
    knobs(PRIMALLOC_VERBOSE=1, **variables)
    lines = [line.split() for line in knobs.errors.splitlines()[1:] if line.startswith("  ")]
    return {name: (" ".join(value), source) for name, *value, source in lines}


def test_verbose_tells_each_value_and_its_source(knobs):
    settings = settings_of(knobs, MALLOC_ARENA_MAX=3, MALLOC_TOP_PAD_=1, PRIMALLOC_TOP_PAD="2M",
                           GLIBC_TUNABLES="glibc.malloc.top_pad=3:glibc.malloc.mmap_max=0x10",
                           MALLOC_CHECK_=1, PRIMALLOC_OPTIONS="purge_delay=2000")
    assert settings["check"] == ("report", "MALLOC_CHECK_")
    assert settings["shards"] == ("3 shards", "MALLOC_ARENA_MAX")
    assert settings["top_pad"] == ("2 MiB", "PRIMALLOC_TOP_PAD")
    assert settings["mmap_max"] == ("16", "GLIBC_TUNABLES")
    assert settings["purge_delay"] == ("2 s", "PRIMALLOC_OPTIONS")
    assert settings["cache_total"] == ("128 MiB", "default")


def test_garbage_is_ignored_and_told_of_on_demand(knobs):
    garbage = {"MALLOC_TOP_PAD_": "much", "GLIBC_TUNABLES": "glibc.malloc.perturb=1000:::=:x=1"}
    assert knobs("bytes", 2000, **garbage)["kept"] == "11"  # and nothing on standard error
    assert settings_of(knobs, **garbage)["top_pad"] == ("0 bytes", "default")
    assert "primalloc: ignoring value 'much' of MALLOC_TOP_PAD_, as glibc does\n" in knobs.errors
    assert "ignoring value '1000' of glibc.malloc.perturb" in knobs.errors


def test_mallopt_tells_what_it_sets(knobs):
    knobs("mallopt", M_TOP_PAD, 65536, PRIMALLOC_VERBOSE=1)
    assert knobs.errors.endswith("primalloc: mallopt sets top_pad to 64 KiB\n")


MIB = 1024  # KiB, as the fixture prints them
EITHER = pytest.mark.parametrize("preload", [False, True], ids=["glibc", "primalloc"])
USED = "resident", 100000, 500  # 48 MiB
STAYS = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_MMAP_MAX_": 0}


def turns(printed):
    return [printed[name] for name in sorted(printed) if name.startswith("turn")]


@EITHER
def test_memory_stays(knobs, preload):
    printed = knobs("faults", 20000000, 4, 0, *USED, "idle", 1500, preload=preload, **STAYS)
    assert max(turns(printed)[1:]) < 5  # 10 huge pages; a page of code may come late
    assert printed["idle"] > 45 * MIB and printed["tasks"] == 1


def test_memory_stays_through_long_pauses(knobs):
    """No thread that would look after free pages, and no faults after five idle seconds, but for
    the untouched end of a block that was freed beside them meanwhile."""
    printed = knobs("resident", 100000, 1000, "faults", 64000000, 3, 5000, **STAYS)
    assert max(turns(printed)[1:]) < 16 and printed["tasks"] == 1


@EITHER
@pytest.mark.parametrize("way", ["variable", "tunable", "mallopt"])
def test_trim_threshold(knobs, way, preload):
    """What is free above it goes back within free(), however busy the program is."""
    variables, words = {
        "variable": ({"MALLOC_TRIM_THRESHOLD_": 1 << 20}, []),
        "tunable": ({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=0x100000"}, []),
        "mallopt": ({}, ["mallopt", M_TRIM_THRESHOLD, 1 << 20]),
    }[way]
    printed = knobs(*words, *USED, preload=preload, **variables)
    assert printed["used0"] > 45 * MIB and printed["freed0"] < 3 * MIB


@EITHER
def test_below_the_trim_threshold_memory_stays(knobs, preload):
    variables = {"MALLOC_TRIM_THRESHOLD_": 100 << 20, "MALLOC_MMAP_MAX_": 0}
    printed = knobs(*USED, "idle", 1500, preload=preload, **variables)
    assert printed["freed0"] > 45 * MIB and printed["idle"] > 45 * MIB


def test_without_threshold_idle_memory_goes_back(knobs):
    """The design that the two above switch off."""
    printed = knobs(*USED, "idle", 1500 * PATIENCE)
    assert printed["freed0"] > 45 * MIB and printed["idle"] < 16 * MIB


@EITHER
def test_trim_keeps_top_pad(knobs, preload):
    variables = {"MALLOC_TRIM_THRESHOLD_": 1 << 20, "MALLOC_TOP_PAD_": 16 << 20}
    printed = knobs(*USED, preload=preload, **variables)
    assert 12 * MIB < printed["freed0"] < 20 * MIB


def test_a_vast_pad_is_address_space_alone(harness):
    """Also where another thread has been: then what describes new memory is touched beforehand."""
    script = """
import ctypes, sys, threading
thread = threading.Thread(target=bytes, args=(100,))
thread.start()
thread.join()
if len(sys.argv) > 1:
    ctypes.CDLL(None).mallopt(-2, -1)
kept = [bytearray(300000) for _ in range(64)]
print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])
"""
    plain, padded = (
        int(harness.run_preloaded([PYTHON, "-c", script, *words]).stdout)
        for words in ([], ["padded"])
    )
    assert padded < plain + 4096


@EITHER
@pytest.mark.parametrize("size", [50000, 300000])
@pytest.mark.parametrize("way", ["variable", "tunable", "mallopt"])
def test_mmap_threshold(knobs, way, size, preload):
    """Blocks of at least the threshold leave the resident size at once, also where it is less than
    what is a large block by itself. Without huge pages, whose unused end would count, too."""
    variables, words = {
        "variable": ({"MALLOC_MMAP_THRESHOLD_": size}, []),
        "tunable": ({"GLIBC_TUNABLES": f"glibc.malloc.mmap_threshold={size}"}, []),
        "mallopt": ({}, ["mallopt", M_MMAP_THRESHOLD, size]),
    }[way]
    variables["PRIMALLOC_THP"] = "never"
    printed = knobs(*words, "resident", size, 100, preload=preload, **variables)
    assert printed["used0"] >= 100 * size // 1024 and printed["freed0"] < 640


@EITHER
def test_blocks_below_the_mmap_threshold_stay(knobs, preload):
    variables = {"MALLOC_MMAP_THRESHOLD_": 400000, "MALLOC_TRIM_THRESHOLD_": -1}
    printed = knobs("resident", 300000, 100, preload=preload, **variables)
    assert printed["freed0"] > 28 * MIB


@EITHER
def test_mmap_max_bounds_the_blocks_that_leave(knobs, preload):
    variables = {"MALLOC_MMAP_THRESHOLD_": 50000, "MALLOC_MMAP_MAX_": 100,
                 "MALLOC_TRIM_THRESHOLD_": -1, "PRIMALLOC_THP": "never"}
    printed = knobs(*USED, preload=preload, **variables)
    assert 36 * MIB < printed["freed0"] < 41 * MIB  # 400 of the 500 blocks


@EITHER
@pytest.mark.parametrize("way", ["variable", "mallopt"])
def test_mmap_max_of_zero_switches_it_off(knobs, way, preload):
    variables = {"MALLOC_MMAP_THRESHOLD_": 50000, "MALLOC_TRIM_THRESHOLD_": -1}
    words = ["mallopt", M_MMAP_MAX, 0] if way == "mallopt" else []
    if way == "variable":
        variables["MALLOC_MMAP_MAX_"] = 0
    assert knobs(*words, *USED, preload=preload, **variables)["freed0"] > 45 * MIB


@EITHER
@pytest.mark.parametrize("way", ["variable", "tunable", "mallopt"])
def test_top_pad(knobs, way, preload):
    """60 MB of small blocks: the address space grows in steps of the pad and more."""
    variables, words = {
        "variable": ({"MALLOC_TOP_PAD_": 8 << 20}, []),
        "tunable": ({"GLIBC_TUNABLES": "glibc.malloc.top_pad=8388608"}, []),
        "mallopt": ({}, ["mallopt", M_TOP_PAD, 8 << 20]),
    }[way]
    printed = knobs(*words, "steps", 1000, 60000, preload=preload, **variables)
    assert printed["least"] >= 8 * MIB and printed["steps"] <= 8
    assert knobs("steps", 1000, 60000, preload=preload)["least"] <= 2 * MIB


@EITHER
def test_no_cache_of_a_thread(knobs, preload):
    """Without a cache little remains: 656 bytes of glibc's own, and with us the rest of the page
    that the last block came from."""
    without = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"}
    assert knobs("cached", 100, 1000, preload=preload)["cached"] >= 1000
    cached = knobs("cached", 100, 1000, preload=preload, **without)["cached"]
    assert cached <= (4096 if preload else 700)


def test_cache_max(knobs):
    """Not beside glibc, whose caches hold no blocks of this size anyway."""
    assert knobs("cached", 8000, 100)["cached"] > 16000
    few = {"GLIBC_TUNABLES": "glibc.malloc.tcache_max=1032"}
    assert knobs("cached", 8000, 100, **few)["cached"] <= 8192


def test_values_at_their_ends(knobs):
    """Nothing that can be set keeps a program from working."""
    ends = ["0", "1", "-1", "0x7fffffff", "18446744073709551615"]
    for name in ("TRIM_THRESHOLD_", "TOP_PAD_", "MMAP_THRESHOLD_", "MMAP_MAX_", "ARENA_MAX",
                 "ARENA_TEST", "PERTURB_", "CHECK_"):
        for end in ends:
            printed = knobs("bytes", 3000, "resident", 5000, 100, **{f"MALLOC_{name}": end})
            assert printed["kept"] == "11" and printed["zeroed_again"] == "00", (name, end)
    for parameter in range(M_ARENA_MAX, 0):
        for value in (0, 1, -1, 1 << 30, (1 << 31) - 1):
            assert knobs("mallopt", parameter, value, "bytes", 3000)["kept"] == "11"
