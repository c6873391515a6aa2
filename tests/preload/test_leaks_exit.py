"""How a process ends that leaks: with a status of its own, after all others have had their turn."""

import re

import pytest

LEAKED = 23


@pytest.fixture
def leaks_at_end(fixtures):
    library = fixtures("leaks_at_end.c", "-shared", "-DLIBRARY")
    return fixtures("leaks_at_end.c", library, f"-Wl,-rpath,{library.parent}")


def test_others_have_their_turn_after_leaks(harness, leaks_at_end):
    """The checks' last look, statistics, buffered text, and libraries that are finalised later."""
    changes = {"PRIMALLOC_LEAK_CHECK": "normal", "PRIMALLOC_CHECK": "report",
               "PRIMALLOC_SHOW_STATS": "1", "PRIMALLOC_STATS_OUTPUT": "calls"}
    result = harness.run_preloaded([leaks_at_end], changes=changes, check=False)
    errors = result.stderr.decode()
    assert result.returncode == LEAKED, errors
    assert "1000 bytes in 1 block leaked" in errors, errors
    assert re.search(r"overrun|behind", errors), errors
    assert "by class:" in errors and (harness.directory / "calls").read_text()
    assert sorted(result.stdout.splitlines()) == [b"library ended", b"the answer is 42"]
    changes["PRIMALLOC_LEAK_EXIT"] = "0"
    assert harness.run_preloaded([leaks_at_end], changes=changes, check=False).returncode == 0


@pytest.mark.parametrize("way", ["quick_exit", "_exit"])
def test_who_skips_destructors_skips_the_check(harness, leaks_at_end, way):
    result = harness.run_preloaded([leaks_at_end, way], check=False,
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert result.returncode == 3 and result.stdout + result.stderr == b""


def test_a_static_program_tells_all_after_leaks(harness, library, fixtures):
    archive = library.parent / "libprimalloc.a"
    end = fixtures("leaks_at_end.c", "-DLIBRARY", "-c", output="end.o")
    program = fixtures("leaks_at_end.c", str(end), "-static", "-Wl,-u,malloc", str(archive),
                       output="static_leaks_at_end")
    environment = harness.environment(PRIMALLOC_LEAK_CHECK="normal", PRIMALLOC_SHOW_STATS="1")
    result = harness.run([program], environment=environment, check=False)
    assert result.returncode == LEAKED, result.stderr
    assert b"leaked" in result.stderr and b"by class:" in result.stderr, result.stderr
    assert sorted(result.stdout.splitlines()) == [b"library ended", b"the answer is 42"]
