"""glibc's settings under the preload, with glibc itself beside it where that can be compared."""

import pytest

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
        return {name: int(value) if value.lstrip("-").isdigit() and len(value) != 2 else value
                for name, value in pairs.items()}

    return run


M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX = 1, -1, -2, -3, -4
M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX = -5, -6, -7, -8

FILLED = {"new": "5a", "kept": "11", "grown": "5a", "zeroed": "00", "zeroed_again": "00",
          "aligned": "5a", "freed": "a5"}


@pytest.mark.parametrize("preload", [False, True], ids=["glibc", "primalloc"])
@pytest.mark.parametrize("size", [2000, 40000])
@pytest.mark.parametrize("way", ["variable", "tunable", "mallopt"])
def test_perturb(knobs, way, size, preload):
    """Sizes above the 1032 bytes that glibc's cache of threads leaves as they are."""
    variables, words = {
        "variable": ({"MALLOC_PERTURB_": 0xa5}, []),
        "tunable": ({"GLIBC_TUNABLES": "glibc.malloc.perturb=0xa5"}, []),
        "mallopt": ({}, ["mallopt", M_PERTURB, 0xa5]),
    }[way]
    printed = knobs(*words, "bytes", size, preload=preload, **variables)
    printed.pop("mallopt", None)
    assert printed == FILLED


@pytest.mark.parametrize("size", [100, 1000, 1500, 200000])
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
    (M_ARENA_TEST, 0), (M_ARENA_TEST, 8), (M_ARENA_MAX, 0), (M_ARENA_MAX, 1),
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
                           PRIMALLOC_OPTIONS="purge_delay=2000")
    assert settings["shards"] == ("3 shards", "MALLOC_ARENA_MAX")
    assert settings["top_pad"] == ("2 MiB", "PRIMALLOC_TOP_PAD")
    assert settings["mmap_max"] == ("16", "GLIBC_TUNABLES")
    assert settings["purge_delay"] == ("2 s", "PRIMALLOC_OPTIONS")
    assert settings["cache_total"] == ("64 MiB", "default")


def test_garbage_is_ignored_and_told_of_on_demand(knobs):
    garbage = {"MALLOC_TOP_PAD_": "much", "GLIBC_TUNABLES": "glibc.malloc.perturb=1000:::=:x=1"}
    assert knobs("bytes", 2000, **garbage)["kept"] == "11"  # and nothing on standard error
    assert settings_of(knobs, **garbage)["top_pad"] == ("0 bytes", "default")
    assert "primalloc: ignoring value 'much' of MALLOC_TOP_PAD_, as glibc does\n" in knobs.errors
    assert "ignoring value '1000' of glibc.malloc.perturb" in knobs.errors


def test_mallopt_tells_what_it_sets(knobs):
    knobs("mallopt", M_TOP_PAD, 65536, PRIMALLOC_VERBOSE=1)
    assert knobs.errors.endswith("primalloc: mallopt sets top_pad to 64 KiB\n")
