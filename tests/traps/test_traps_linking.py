"""Programs with an allocator of their own, static programs, other page sizes."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_t09_own_malloc(preload, fixtures, each_library):
    """malloc, free, calloc and realloc are the program's; posix_memalign and the rest are ours."""
    assert preload(each_library, fixtures("own_malloc.c")).stdout == b"shared\n"


def test_t11_static_link(harness, fixtures, archive):
    """fork, popen, malloc_trim, getaddrinfo, threads: no symbol twice, and ours serves."""
    program = fixtures("static_family.c", "-static", str(archive), output="static_family")
    assert harness.run([program]).stdout == b"ours\n"


def test_t11_static_archive_in_a_dynamic_program(harness, fixtures, archive):
    program = fixtures("static_family.c", str(archive), "-rdynamic", output="archive_family")
    assert harness.run([program]).stdout == b"ours\n"


@pytest.mark.parametrize("static", [[], ["-static"]])
def test_t12_the_whole_family_or_none(harness, fixtures, archive, static):
    """An archive is one object: whoever calls malloc gets every function of it, and its start."""
    output = "whole" + "".join(static)
    program = fixtures("static_family.c", *static, str(archive), output=output)
    names = harness.run(["nm", program]).stdout.decode().split("\n")
    defined = {line.split()[-1] for line in names if " T " in line or " W " in line}
    assert {"malloc", "free", "realloc", "calloc", "memalign", "malloc_usable_size",
            "prim_version"} <= defined
    assert harness.run([program]).stdout == b"ours\n"


@pytest.mark.parametrize("static", [[], ["-static"]])
def test_t12_where_only_libc_calls_malloc(harness, fixtures, archive, static):
    """With what CMake's targets and pkg-config add to an archive; without it libc serves."""
    for asked, served in ((["-Wl,-u,malloc"], b"ours\n"), ([], b"another's\n")):
        output = f"only{len(static)}{len(asked)}"
        program = fixtures("only_libc_calls.c", *static, *asked, archive, output=output)
        assert harness.run([program]).stdout == served


def test_t12_the_shared_library_is_always_needed(harness, fixtures, library):
    """--as-needed finds a use for it in every program: its start."""
    program = fixtures("only_libc_calls.c", "-DSHARED", "-Wl,--as-needed", library,
                       f"-Wl,-rpath,{library.parent}", output="only_shared")
    assert harness.run([program]).stdout == b"ours\n"


@pytest.mark.prove
def test_t16_other_page_sizes(harness, need):
    """A whole workload on aarch64 with pages of 4, 16 and 64 KiB, in an emulator."""
    need("aarch64-linux-gnu-gcc", "qemu-aarch64")
    done = harness.run([ROOT / "tools" / "prove", "aarch64"], directory=ROOT, timeout=600)
    assert b"pass" in done.stdout
    for size in ("4096", "16384", "65536"):
        # As in tools/prove: a processor without SVE, whose loads qemu gets wrong behind mremap.
        harness.run(["qemu-aarch64", "-cpu", "cortex-a72", "-p", size,
                     ROOT / "build/prove/aarch64/portable"])
