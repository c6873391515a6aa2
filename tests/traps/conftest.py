"""Fixtures of the traps: those of tests/preload, programs of this folder's own, and the mark
`prove` for what needs heavy packages or long runs: `make prove` runs it, by --prove."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "preload"))

from harness import Harness  # noqa: E402

FLAGS = ["-O1", "-g", "-fno-builtin", "-D_GNU_SOURCE", "-fPIC", "-Wall"]
FOLDERS = [ROOT / "tests" / "traps" / "fixtures", ROOT / "tests" / "preload" / "fixtures"]


def pytest_addoption(parser):
    parser.addoption("--prove", action="store_true", help="run what is marked prove as well")


def pytest_configure(config):
    config.addinivalue_line("markers", "prove: needs heavy packages or long runs")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--prove"):
        heavy = [item for item in items if item.get_closest_marker("prove")]
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if item not in heavy]


def library_path(name: str) -> pathlib.Path:
    folder = pathlib.Path(os.environ.get("PRIM_TEST_LIBRARY_DIRECTORY", ROOT / "build" / "lib"))
    if not (folder / name).exists():
        pytest.fail(f"{folder / name} is missing: run `make` first")
    return folder / name


@pytest.fixture(scope="session")
def library() -> pathlib.Path:
    return library_path("libprimalloc.so")


@pytest.fixture(scope="session")
def archive() -> pathlib.Path:
    return library_path("libprimalloc.a")


@pytest.fixture(params=["release", "checked"])
def each_library(request) -> pathlib.Path:
    """The release flavour, then the one with internal assertions."""
    suffix = "" if request.param == "release" else "_checked"
    return library_path(f"libprimalloc{suffix}.so")


@pytest.fixture
def harness(library, tmp_path) -> Harness:
    return Harness(library, tmp_path)


@pytest.fixture
def preload(harness):
    """Runs a command under a library of ours: preload(library, "program", NAME="value")."""
    def run(library, *command, check=True, timeout=120, **changes):
        environment = harness.environment(LD_PRELOAD=str(library), **changes)
        return harness.run(command, environment=environment, check=check, timeout=timeout)
    return run


@pytest.fixture(scope="session")
def fixtures(tmp_path_factory):
    """Builds a C or C++ file of a fixtures folder on first use: fixtures("name.c", "-shared")."""
    folder = tmp_path_factory.mktemp("fixtures")

    def build(source, *options, output=None, compiler=None):
        name = output or source.rsplit(".", 1)[0] + (".so" if "-shared" in options else "")
        target = folder / name
        if not target.exists():
            path = next(path / source for path in FOLDERS if (path / source).exists())
            default = ["g++", "-std=c++17"] if path.suffix == ".cc" else ["gcc", "-std=gnu11"]
            command = [*([compiler] if compiler else default), *FLAGS, "-o", target, path, *options,
                       "-ldl", "-pthread"]
            subprocess.run([str(word) for word in command], check=True, timeout=120)
        return target

    return build


@pytest.fixture(scope="session")
def call_numbers():
    """The numbers of system calls by name, as this machine's headers have them."""
    names = subprocess.run(["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-xc", "/dev/null"],
                           capture_output=True, text=True, check=True).stdout
    found = {}
    for line in names.splitlines():
        words = line.split()
        if len(words) == 3 and words[1].startswith("__NR_") and words[2].isdigit():
            found[words[1].removeprefix("__NR_")] = words[2]
    return lambda *wanted: [found[name] for name in wanted if name in found]


@pytest.fixture
def need():
    """Skips the test when a program is missing."""
    def check(*programs):
        for program in programs:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
    return check
