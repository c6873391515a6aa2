"""primalloc.c, all source in one file: it compiles by itself, and programs that hold it work."""

import re

import pytest

from conftest import FIXTURES, ROOT, defined_names, need, run

OVERRIDE = "-DPRIMALLOC_OVERRIDE=1"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")
EXPORT = re.compile(r"^EXPORT\((\w+), (\w+),", re.MULTILINE)
TESTS = ROOT / "tests"


def exported(*without):
    entries = EXPORT.findall((ROOT / "src/api/exports.def").read_text())
    return {symbol for symbol, group in entries if group not in without}


@pytest.mark.parametrize(("compiler", "options"), [
    ("cc", ()), ("cc", (OVERRIDE,)), ("gcc", ("-std=gnu2x", *STRICT)),
    ("gcc", ("-std=c11", OVERRIDE, *STRICT)), ("gcc", ("-O1", OVERRIDE)), ("cc", ("-O2", *STRICT)),
    ("clang", ()), ("clang", ("-O1", OVERRIDE)), ("clang", ("-std=c11", *STRICT)),
    ("clang", ("-std=gnu2x", OVERRIDE, *STRICT))])
def test_it_compiles_alone_and_defines_only_its_own_names(amalgamated, compiler, options):
    names = defined_names(amalgamated(compiler, *options))
    public = exported("START") if OVERRIDE in options else {
        name for name in exported() if name.startswith("prim_")}
    assert public <= names
    assert {name for name in names - public if not name.startswith("prim_internal_")} == set()


@pytest.mark.parametrize(("compiler", "flavour", "name"), [
    ("gcc", "override", "malloc"), ("gcc", "override", "realloc"), ("gcc", "override", "aligned"),
    ("gcc", "override", "free"), ("clang", "prefixed", "malloc"), ("clang", "prefixed", "free")])
def test_the_api_tests_pass_on_it(amalgamated, tmp_path, compiler, flavour, name):
    options, definition = {"override": ((OVERRIDE,), "-DPRIM_TEST_STATIC"),
                           "prefixed": ((), "-DPRIM_TEST_PREFIXED")}[flavour]
    run("gcc", "-O1", "-fno-builtin", "-w", "-D_GNU_SOURCE", definition, "-rdynamic",
        '-DPRIM_TEST_VERSION="any"', f"-I{TESTS}", f"-I{ROOT}/include", f"-I{ROOT}/src",
        TESTS / "api" / f"test_{name}.c", TESTS / "support" / "support.c",
        amalgamated(compiler, "-O1", *options), "-o", tmp_path / "program",
        "-lcmocka", "-ldl", "-pthread")
    run(tmp_path / "program", PRIM_TEST_EXPECT="self")


@pytest.mark.parametrize(("compiler", "optimisation", "linking", "flavour"), [
    ("gcc", "-O1", "-static", "override"), ("gcc", "-O1", "-pie", "override"),
    ("gcc", "-O0", "-static-pie", "prefixed"), ("clang", "-O1", "-static", "prefixed"),
    ("clang", "-O1", "-pie", "override"), ("musl-gcc", "-O1", "-static", "override"),
    ("musl-gcc", "-O1", "-pie", "override"), ("musl-gcc", "-O0", "-static", "prefixed")])
def test_a_program_that_holds_it(amalgamated, amalgamation, tmp_path, compiler,
                                 optimisation, linking, flavour):
    options, definition = {"override": ((OVERRIDE,), "-UPREFIXED"),
                           "prefixed": ((), "-DPREFIXED")}[flavour]
    need(compiler)
    run(compiler, "-O1", "-fno-builtin", "-w", definition, linking, f"-I{amalgamation}",
        FIXTURES / "embed.c", amalgamated(compiler, optimisation, *options),
        "-o", tmp_path / "program", "-pthread")
    assert run(tmp_path / "program") == "embed: good\n"


def test_it_makes_a_library_to_preload(amalgamated, tmp_path):
    library = tmp_path / "libprimalloc.so"
    run("gcc", "-shared", amalgamated("gcc", "-O1", "-fPIC", OVERRIDE), "-o", library, "-pthread")
    names = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    assert names == exported("START")
    statistics = tmp_path / "statistics"
    run("ls", "/", LD_PRELOAD=str(library), PRIMALLOC_STATS="full",
        PRIMALLOC_STATS_OUTPUT=str(statistics))
    assert re.search(r"^primalloc pid=\d+ program=ls allocations=[1-9]", statistics.read_text())


def test_t07_a_plugin_that_holds_it(amalgamated, amalgamation, tmp_path):
    """dlclose leaves it in place: threads that have called it end later."""
    run("gcc", "-shared", "-fPIC", f"-I{amalgamation}", FIXTURES / "plugin.c",
        amalgamated("gcc", "-O1", "-fPIC"), "-o", tmp_path / "plugin.so", "-pthread")
    run("gcc", FIXTURES / "plugin_host.c", "-o", tmp_path / "host", "-pthread", "-ldl")
    assert run(tmp_path / "host", tmp_path / "plugin.so") == "host: good\n"
