"""Programs with some operators new and delete of their own: those that they leave to us call
theirs, as the C++ standard has it [new.delete], and as the C++ library's do."""

import pathlib

import pytest

from harness import require

LIBRARIES = pathlib.Path(__file__).resolve().parents[2] / "build" / "lib"
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
