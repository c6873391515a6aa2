"""Programs with some operators new and delete of their own: those that they leave to us call
theirs, as the C++ standard has it [new.delete], and as the C++ library's do."""

import pathlib
import signal

import pytest

from harness import require

LIBRARIES = pathlib.Path(__file__).resolve().parents[2] / "build" / "lib"
INCLUDE = ("-I", str(LIBRARIES.parents[1] / "include"))
REPLACED = [(), ("SINGLE",), ("ARRAY",), ("ALIGNED",), ("ALIGNED_ARRAY",), ("SINGLE", "ALIGNED"),
            ("ARRAY", "ALIGNED_ARRAY"), ("SINGLE", "ARRAY", "ALIGNED", "ALIGNED_ARRAY")]
LINKED = {
    "shared": ("-L", str(LIBRARIES), "-lprimalloc", f"-Wl,-rpath,{LIBRARIES}"),
    "archive": (str(LIBRARIES / "libprimalloc.a"),),
    "static": ("-static", str(LIBRARIES / "libprimalloc.a")),
}


def built(fixtures, replaced, way="libc"):
    require("g++")
    macros = [f"-DREPLACE_{name}" for name in replaced]
    return fixtures("replaced_operators.cc", *macros, "-w", *LINKED.get(way, ()),
                    output="_".join([way, "replaced", *replaced]))


def expected(harness, fixtures, replaced, *arguments):
    """What the program prints with libc's malloc and the C++ library's operators."""
    printed = harness.run([built(fixtures, replaced), *arguments]).stdout
    assert printed.endswith(b"wrong 0, null 1\n")
    assert (printed.split()[:8] != [b"0"] * 8) == bool(replaced)
    return printed


@pytest.mark.parametrize("replaced", REPLACED, ids="-".join)
def test_preloaded(harness, fixtures, each_library, replaced):
    environment = harness.environment(LD_PRELOAD=str(each_library))
    result = harness.run([built(fixtures, replaced), "much"], environment=environment)
    assert result.stdout == expected(harness, fixtures, replaced, "much")
    assert result.stderr == b""


@pytest.mark.parametrize("replaced", REPLACED, ids="-".join)
@pytest.mark.parametrize("way", LINKED)
def test_linked(harness, fixtures, replaced, way):
    """A static program has no C++ library behind us that would catch what its operators throw."""
    arguments = ["much"] if way != "static" else []
    result = harness.run([built(fixtures, replaced, way), *arguments])
    assert result.stdout == expected(harness, fixtures, replaced, *arguments)
    assert result.stderr == b""


def failing(harness, fixtures, way, *macros):
    static = ["-static-libstdc++", "-static-libgcc"] if way != "static" else []
    program = fixtures("failing_new.cc", *(f"-D{name}" for name in macros), "-w", *INCLUDE,
                       *LINKED[way], *static, output="_".join([way, "failing", *macros]))
    return harness.run([program], check=False)


@pytest.mark.parametrize("way", LINKED)
def test_t38_new_fails_with_a_static_library(harness, fixtures, way):
    """Of which the program holds no more than it refers to: new must not return NULL for that."""
    require("g++")
    result = failing(harness, fixtures, way, "CATCHES")
    assert (result.stdout, result.stderr) == (b"caught std::bad_alloc\n", b"")
    result = failing(harness, fixtures, way)
    assert (result.returncode, result.stdout) == (-signal.SIGABRT, b"")
    assert b"operator new" in result.stderr and result.stderr.count(b"\n") == 1
    result = failing(harness, fixtures, way, "HEADER")
    assert (result.stdout, result.stderr) == (b"null null failure caught\n", b"")


def test_t38_new_fails_in_a_plugin(harness, fixtures, each_library):
    """Whose C++ library is out of sight for all but itself, as in an interpreter's extensions."""
    require("g++")
    command = [fixtures("failing_host.c"), fixtures("failing_plugin.cc", "-shared", "-w")]
    result = harness.run(command, environment=harness.environment(LD_PRELOAD=str(each_library)))
    assert (result.stdout, result.stderr) == (b"std::bad_alloc\nfailure\nno block\n", b"")


def test_t38_new_fails_in_a_plugin_with_a_static_library(harness, fixtures, each_library):
    require("g++")
    plugin = fixtures("failing_plugin.cc", "-shared", "-w", "-static-libstdc++", "-static-libgcc",
                      "-DTHROWING_ONLY", output="failing_plugin_static.so")
    command = [fixtures("failing_host.c"), plugin]
    result = harness.run(command, environment=harness.environment(LD_PRELOAD=str(each_library)))
    assert (result.stdout, result.stderr) == (b"std::bad_alloc\nfailure\n", b"")
