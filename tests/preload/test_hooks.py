"""__malloc_hook and its relatives: called whenever they are set, in programs that use them."""

import pathlib
import re
import signal

import pytest

from harness import require

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = f"-I{ROOT / 'include'}"
SEEN = b"mallocs=101 frees=102 reallocs=100 memaligns=1 wrong=0 initialised=1\n"


@pytest.mark.parametrize("kind", ["pie", "no-pie", "copied-nothing"])
def test_program_linked_with_us(harness, fixtures, library, kind):
    """Its own copy of the variables, or a reference through the table of offsets."""
    options = {"pie": ["-fPIE", "-pie"], "no-pie": ["-fno-pie", "-no-pie"],
               "copied-nothing": ["-fPIC", "-pie"]}[kind]
    program = fixtures("hooks.c", INCLUDE, *options, str(library),
                       f"-Wl,-rpath,{library.parent}", output=f"hooks_{kind}")
    assert harness.run([program]).stderr == SEEN


def test_realloc_goes_on_to_malloc_and_free(harness, fixtures, library):
    """Where it has no hook, as in glibc."""
    program = fixtures("few_hooks.c", "-pie", str(library), f"-Wl,-rpath,{library.parent}")
    assert harness.run([program]).stdout == b"mallocs=2 frees=2\n"


def test_library_without_symbols_for_others(harness, fixtures, library):
    hooks = fixtures("few_hooks.c", "-shared", "-DLIBRARY")
    result = harness.run(["bash", "-c", "x=$(echo 1)"], environment=harness.environment(
        LD_PRELOAD=f"{library}:{hooks}"))
    counts = re.findall(rb"frees=(\d+)\n", result.stderr)
    assert counts and all(int(count) > 5 for count in counts), result.stderr


def test_static_programs(harness, fixtures, library):
    archive = library.parent / "libprimalloc.a"
    for name, options in (("dynamic", []), ("static", ["-static"])):
        program = fixtures("hooks.c", INCLUDE, *options, str(archive), output=f"hooks_{name}")
        assert harness.run([program]).stderr == SEEN, name


def test_hook_library(harness, fixtures, library):
    """One that is preloaded beside us, under a program that knows nothing of it."""
    require("bash")
    hooks = fixtures("hooks.c", INCLUDE, "-shared", "-DLIBRARY", output="hook_library.so")
    for order in ((library, hooks), (hooks, library)):
        result = harness.run(["bash", "-c", "x=$(echo 1)"], environment=harness.environment(
            LD_PRELOAD=":".join(map(str, order))))
        counts = dict(re.findall(rb"(\w+)=(\d+)", result.stderr))
        assert int(counts[b"mallocs"]) > 5 and int(counts[b"frees"]) > 0, result.stderr
        assert counts[b"wrong"] == b"0"


def test_together_with_checks(harness, fixtures, library):
    program = fixtures("hooks.c", INCLUDE, str(library), f"-Wl,-rpath,{library.parent}",
                       output="hooks_checked")
    result = harness.run([program], environment=harness.environment(MALLOC_CHECK_="3"))
    assert result.stderr == SEEN


def test_mcheck(harness, fixtures):
    """glibc's names of the checks: begun late, asked of one block, told to a function."""
    result = harness.run_preloaded([fixtures("mcheck.c")])
    assert result.stdout == b"begun=0 ok=0 handled=0 tail=3 handled=3 handled=3 freed=1\n"


@pytest.mark.parametrize("words, sentence", [
    ([], b"double free: this block is free already"),
    (["probe"], b"memory behind the block was overwritten"),
])
def test_mcheck_by_itself(harness, fixtures, words, sentence):
    """Without a function to tell, it tells the user, as glibc's does, and aborts."""
    result = harness.run_preloaded([fixtures("mcheck_alone.c"), *words], check=False)
    assert result.returncode == -signal.SIGABRT
    assert result.stderr.startswith(b"primalloc: " + sentence + b"\n")


@pytest.mark.parametrize("kind", ["declares", "says-nothing"])
def test_library_loaded_late(harness, fixtures, kind):
    """By dlopen, into a program that knows of no hooks, which sets one later still: called from the
    first call on if it includes our header, else from the next that no list of blocks serves."""
    options = [INCLUDE, "-shared", "-fPIC", "-DLIBRARY"]
    if kind == "declares":
        options.append("-DDECLARES")
    library = fixtures("late_hooks.c", *options, output=f"late_hooks_{kind}.so")
    result = harness.run_preloaded([fixtures("late_hooks.c", "-ldl"), library])
    first = {"declares": b"1", "says-nothing": b"0"}[kind]
    assert result.stdout == b"first=%s later=100 after=0\n" % first
