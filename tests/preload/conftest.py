"""Shared fixtures: where the built libraries are, and how a program runs with and without them."""

import ctypes
import os
import pathlib
import subprocess

import pytest

from harness import Harness

ROOT = pathlib.Path(__file__).resolve().parents[2]


PR_SET_THP_DISABLE = 41
HUGE_PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.fixture(scope="session", autouse=True)
def huge_pages_only_on_demand():
    """Where the kernel makes all memory huge unasked, the programs under test have no huge pages at
    all: their faults and resident memory would be in units of 2 MiB. Children inherit that."""
    if HUGE_PAGES.exists() and "[always]" in HUGE_PAGES.read_text():
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def library_path(name: str) -> pathlib.Path:
    directory = pathlib.Path(os.environ.get("PRIM_TEST_LIBRARY_DIRECTORY", ROOT / "build" / "lib"))
    path = directory / name
    if not path.exists():
        pytest.fail(f"{path} is missing: run `make` first")
    return path


@pytest.fixture(scope="session")
def library() -> pathlib.Path:
    """libprimalloc.so, the one that users preload."""
    return library_path("libprimalloc.so")


@pytest.fixture(params=["release", "checked"])
def each_library(request) -> pathlib.Path:
    """The release flavour, then the one with internal assertions."""
    name = "libprimalloc.so" if request.param == "release" else "libprimalloc_checked.so"
    return library_path(name)


@pytest.fixture
def harness(library, tmp_path) -> Harness:
    return Harness(library, tmp_path)


@pytest.fixture(scope="session")
def fixtures(tmp_path_factory):
    """Builds a file of fixtures/ on first use: fixtures("name.c", "-shared") -> path."""
    directory = tmp_path_factory.mktemp("fixtures")
    source_directory = pathlib.Path(__file__).parent / "fixtures"

    def build(source: str, *options: str, output: str | None = None) -> pathlib.Path:
        shared = "-shared" in options
        name = output or pathlib.Path(source).stem + (".so" if shared else "")
        target = directory / name
        if not target.exists():
            compiler = ["g++", "-std=c++17"] if source.endswith(".cc") else ["gcc", "-std=gnu11"]
            command = [*compiler, "-O1", "-g", "-fno-builtin", "-D_GNU_SOURCE", "-fPIC", "-Wall",
                       "-o", str(target), str(source_directory / source), *options, "-ldl",
                       "-pthread"]
            subprocess.run(command, check=True, timeout=60)
        return target

    return build
