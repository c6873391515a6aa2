"""Where the peers come from, each by name: crates, a wheel, Debian packages."""

import json
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "peers"
WORK = BUILD / "work"


class Unavailable(Exception):
    """A peer can't be had or built here; the text says why, for the person who reads the log."""


def run(command, log, cwd=None, env=None):
    """Run a command with its output in the file `log`; raise Unavailable if it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as out:
        out.write(f"$ {' '.join(map(str, command))}\n".encode())
        out.flush()
        try:
            status = subprocess.run(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, cwd=cwd, env=env, check=False).returncode
        except FileNotFoundError as error:
            raise Unavailable(f"{command[0]} is not installed") from error
    if status != 0:
        raise Unavailable(f"{command[0]} failed with status {status}; see {log}")


def crate(name):
    """(folder, version) of a crate that Cargo.toml pins; cargo downloads it at the first call."""
    if not shutil.which("cargo"):
        raise Unavailable("cargo is not installed")
    answer = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version", "1",
         "--manifest-path", str(HERE / "Cargo.toml")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if answer.returncode != 0:
        raise Unavailable(f"cargo can't get the crates: {answer.stderr.strip().splitlines()[-1]}")
    for package in json.loads(answer.stdout)["packages"]:
        if package["name"] == name:
            return Path(package["manifest_path"]).parent, package["version"]
    raise Unavailable(f"the crate {name} is not in bench/peers/Cargo.toml")


def source_copy(peer, folder):
    """A private copy of a crate's sources to build in, fresh each time."""
    copy = WORK / peer
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return copy


def wheel_file(peer, requirement, wanted):
    """Extract the file that ends with `wanted` from a wheel; its path."""
    folder = WORK / peer
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
         "--dest", folder, requirement], folder / "log")
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            if entry.endswith(wanted):
                return Path(archive.extract(entry, folder))
    raise Unavailable(f"{wheel.name} has no {wanted}")


def debian_file(peer, package, pattern):
    """(path, version) of a file matching `pattern` in a Debian package, not installed."""
    folder = WORK / peer
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package], folder / "log",
        cwd=folder)
    archive = next(folder.glob("*.deb"))
    run(["dpkg-deb", "-x", archive, folder / "files"], folder / "log")
    version = subprocess.run(["dpkg-deb", "-f", str(archive), "Version"],
                             stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    for path in sorted((folder / "files").glob(pattern)):
        if path.is_file():
            return path.resolve(), version
    raise Unavailable(f"the Debian package {package} has no {pattern}")


def machine():
    """The processor's name as compilers write it: x86_64, aarch64."""
    return platform.machine()
