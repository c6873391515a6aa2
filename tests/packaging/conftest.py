"""How the tests of packaging build and run: one command, its output in the failure."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = pathlib.Path(__file__).parent / "fixtures"


def run(*command, cwd=ROOT, **environment):
    """The standard output of a command; whatever it printed is in the failure."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=os.environ | environment, text=True, timeout=900,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(words)}\nexit {done.returncode}\n{done.stdout}{done.stderr}",
                    pytrace=False)
    return done.stdout


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


def defined_names(path):
    """The global names that an object file or archive defines."""
    lines = run("nm", "-g", "--defined-only", path).splitlines()
    return {fields[2] for fields in map(str.split, lines) if len(fields) == 3 and fields[1] != "N"}


@pytest.fixture(scope="session")
def amalgamation(tmp_path_factory):
    """The folder that tools/amalgamate wrote."""
    folder = tmp_path_factory.mktemp("amalgamation")
    run(ROOT / "tools" / "amalgamate", folder)
    return folder


@pytest.fixture(scope="session")
def amalgamated(amalgamation):
    """amalgamated("gcc", "-O2", ...): primalloc.c compiled once by that command."""

    def build(compiler, *options):
        need(compiler)
        words = "".join(options).replace("/", "_").replace("=", "_")
        target = amalgamation / f"{compiler}{words}.o"
        if not target.exists():
            run(compiler, *options, "-c", "primalloc.c", "-o", target, cwd=amalgamation)
        return target

    return build
