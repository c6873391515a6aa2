"""The files of the project, as the tools see them."""

import os
import subprocess
from pathlib import Path

SKIPPED_FOLDERS = {".git", "build", "target", "venv", "__pycache__", ".pytest_cache"}
C_SUFFIXES = {".c", ".h", ".cc", ".cpp", ".hpp"}


class Tree:
    """A checkout, or a fixture that stands in for one, and the folder with what was built of it."""

    def __init__(self, root, build=None):
        self.root = Path(root).resolve()
        self.build = Path(build).resolve() if build else self.root / "build"

    def path(self, relative):
        return self.root / relative

    def exists(self, relative):
        return (self.root / relative).exists()

    def read(self, relative):
        return (self.root / relative).read_text(encoding="utf-8", errors="replace")

    def files(self, *folders, suffixes=None):
        """Relative paths below the folders (all of the tree if none is given), sorted."""
        found = []
        for folder in folders or ["."]:
            for where, names, files in os.walk(self.root / folder):
                names[:] = sorted(set(names) - SKIPPED_FOLDERS)
                for name in files:
                    if suffixes is None or Path(name).suffix in suffixes:
                        found.append(os.path.relpath(Path(where) / name, self.root))
        return sorted(found)

    def run(self, *command, check=True, **options):
        """The standard output of a command run in the root of the tree."""
        done = subprocess.run(
            [str(word) for word in command], cwd=self.root, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        if check and done.returncode != 0:
            words = " ".join(str(word) for word in command[:3])
            raise RuntimeError(f"`{words} ...` failed: {done.stderr.strip()[-400:]}")
        return done.stdout


def is_text_program(tree, relative):
    """The language of a program text by suffix or first line: c, rust, python, shell or None."""
    suffix = Path(relative).suffix
    by_suffix = {".rs": "rust", ".py": "python", ".sh": "shell"}
    if suffix in C_SUFFIXES:
        return "c"
    if suffix in by_suffix:
        return by_suffix[suffix]
    if suffix == "":
        with open(tree.path(relative), "rb") as file:
            first = file.readline(80)
        if first.startswith(b"#!"):
            return "python" if b"python" in first else "shell" if b"sh" in first else None
    return None
