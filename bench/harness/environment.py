"""Paths, the Python environment with the packages that reports need, and the compiled helpers.

Only the standard library may be imported here: this module makes the rest importable.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BENCH = ROOT / "bench"
BUILD = ROOT / "build"
VENV = BUILD / "venv"
REQUIREMENTS = BENCH / "requirements.txt"
STAMP = VENV / "bench-requirements"


class BenchError(Exception):
    """Something a person has to put right; the text names the thing and says how."""


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} can't be read: {error}") from error


def write_json(path, value):
    """In one step: what was there before is kept until all of the new is."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(value, separators=(",", ":")) + "\n")
    part.replace(path)


def needed_packages():
    """Identifies the set of packages, so that a change of requirements.txt is noticed."""
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()


def enter_venv():
    """Go on in build/venv, which is made at the first call, when this is not it already."""
    python = VENV / "bin" / "python"
    if not python.exists() or not STAMP.exists() or STAMP.read_text() != needed_packages():
        print(f"preparing {VENV} ...", flush=True)
        if not python.exists():
            quiet_run([sys.executable, "-m", "venv", str(VENV)],
                      "on Debian, python3-venv has to be installed")
        quiet_run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                   "-r", str(REQUIREMENTS)], "the packages are named in bench/requirements.txt")
        STAMP.write_text(needed_packages())
    if Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(str(python), [str(python), *sys.argv])


def quiet_run(command, hint):
    """Run a command; where it fails, stop with its last lines and the hint."""
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=False)
    if answer.returncode != 0:
        last = "\n".join(answer.stdout.strip().splitlines()[-6:])
        sys.exit(f"error: {' '.join(command)} failed ({hint}):\n{last}")


def helper(name, *flags):
    """The program built from bench/helpers/NAME.c, compiled again when its source is newer."""
    source = BENCH / "helpers" / f"{name}.c"
    program = BUILD / "bench-helpers" / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CC", "cc")
        if not shutil.which(compiler):
            raise BenchError(f"the C compiler {compiler} is not installed")
        answer = subprocess.run(
            [compiler, "-O2", "-Wall", "-Wextra", *flags, str(source), "-o", str(program)],
            stderr=subprocess.PIPE, text=True, check=False)
        if answer.returncode != 0:
            raise BenchError(f"{source} does not compile:\n{answer.stderr}")
    return program


def build_workloads():
    """Configure and build bench/workloads into build/bench; quick when nothing changed."""
    out = BUILD / "bench-cmake"
    for command in (["cmake", "-S", str(BENCH / "workloads"), "-B", str(out)],
                    ["cmake", "--build", str(out), "-j", "2"]):
        try:
            answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, check=False)
        except FileNotFoundError as error:
            raise BenchError("cmake is not installed; the workloads need it") from error
        if answer.returncode != 0:
            last = "\n".join(answer.stdout.strip().splitlines()[-15:])
            raise BenchError(f"{' '.join(command)} failed:\n{last}")
