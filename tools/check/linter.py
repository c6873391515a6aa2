"""The linters have nothing to say: clang-tidy on src/, clippy on cli/."""

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from house.report import Outcome

DATABASE_FOLDER = "cmake"


def sources_compiled(tree):
    """The files of src/ in the compile database, each once."""
    database = tree.build / DATABASE_FOLDER / "compile_commands.json"
    if not database.exists():
        raise RuntimeError(f"{database} is missing; `make` writes it")
    compiled = json.loads(database.read_text())
    names = {os.path.relpath(entry["file"], tree.root) for entry in compiled}
    return sorted(name for name in names if name.startswith("src/"))


def lint_c(tree, path):
    done = subprocess.run(["clang-tidy", "--quiet", "-p", str(tree.build / DATABASE_FOLDER), path],
                          cwd=tree.root, text=True, capture_output=True)
    findings = re.findall(r"^(\S+:\d+:\d+: (?:warning|error): .*)$", done.stdout, re.M)
    if done.returncode != 0 and not findings:
        findings = [f"{path}: {(done.stdout + done.stderr).strip()[-200:]}"]
    return [finding.replace(f"{tree.root}/", "") for finding in findings]


def lint_rust(tree):
    if not tree.exists("cli/Cargo.toml"):
        return []
    command = ["cargo", "clippy", "--manifest-path", "cli/Cargo.toml", "--locked", "--quiet",
               "--target-dir", str(tree.build / "cargo"), "--all-targets", "--", "-D", "warnings"]
    done = subprocess.run(command, cwd=tree.root, text=True, capture_output=True)
    if done.returncode == 0:
        return []
    lines = re.findall(r"^(?:error.*| +--> .*)$", done.stderr, re.M)
    return [f"clippy: {line.strip()}" for line in lines] or [done.stderr.strip()[-400:]]


def check(tree):
    files = sources_compiled(tree)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = list(pool.map(lambda path: lint_c(tree, path), files))
    problems = sorted({line for lines in findings for line in lines}) + lint_rust(tree)
    return Outcome(f"clang-tidy on {len(files)} files, clippy", problems)
