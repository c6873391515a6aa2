"""The linters have nothing to say: clang-tidy on src/, clippy on cli/ and bindings/rust.

A file in which clang-tidy found nothing is not looked at again until it, a header below it, the
settings or the compiler's options change; build/check/linted.json keeps the fingerprints."""

import hashlib
import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

import layers
from house.report import Outcome

DATABASE_FOLDER = "cmake"
MEMORY = "check/linted.json"
GCC_ONLY = ("-fno-tree-",)  # clang calls these wrong


def sources_compiled(tree):
    """{file of src/: the command that compiles it} from the compile database."""
    database = tree.build / DATABASE_FOLDER / "compile_commands.json"
    if not database.exists():
        raise RuntimeError(f"{database} is missing; `make` writes it")
    commands = {os.path.relpath(entry["file"], tree.root): entry["command"].split(" -o ")[0]
                for entry in json.loads(database.read_text())}
    return {name: commands[name] for name in sorted(commands)
            if name.startswith("src/") and tree.exists(name)}


def fingerprint(tree, path, command):
    """A hash of everything that clang-tidy's answer on a file depends on."""
    seen, waiting = set(), [path]
    while waiting:
        name = waiting.pop()
        if name not in seen and tree.exists(name):
            seen.add(name)
            waiting += [f"{folder}/{included}" for included, _ in layers.includes_of(tree, name)
                        for folder in ("src", "include")]
    texts = [command, tree.read(".clang-tidy")] + [tree.read(name) for name in sorted(seen)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def remembered(tree):
    memory = tree.build / MEMORY
    return json.loads(memory.read_text()) if memory.exists() else {}


def remember(tree, prints):
    memory = tree.build / MEMORY
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text(json.dumps(prints, indent=1, sort_keys=True))


def lint_c(tree, path, command):
    options = [word for word in shlex.split(command)[1:] if not word.startswith(GCC_ONLY)]
    done = subprocess.run(["clang-tidy", "--quiet", path, "--", *options],
                          cwd=tree.root, text=True, capture_output=True)
    findings = re.findall(r"^(\S+:\d+:\d+: (?:warning|error): .*)$", done.stdout, re.M)
    if done.returncode != 0 and not findings:
        findings = [f"{path}: {(done.stdout + done.stderr).strip()[-200:]}"]
    return [finding.replace(f"{tree.root}/", "") for finding in findings]


def lint_rust(tree, crate, target):
    manifest = f"{crate}/Cargo.toml"
    if not tree.exists(manifest):
        return []
    features = [] if crate == "cli" else ["--features", "allocator-api2"]
    command = ["cargo", "clippy", "--manifest-path", manifest, "--locked", "--quiet", *features,
               "--target-dir", str(tree.build / target), "--all-targets", "--", "-D", "warnings"]
    done = subprocess.run(command, cwd=tree.root, text=True, capture_output=True)
    if done.returncode == 0:
        return []
    lines = re.findall(r"^(?:error.*| +--> .*)$", done.stderr, re.M)
    return [f"clippy: {line.strip()}" for line in lines] or [done.stderr.strip()[-400:]]


def check(tree):
    commands = sources_compiled(tree)
    prints = {path: fingerprint(tree, path, command) for path, command in commands.items()}
    known = remembered(tree)
    files = [path for path in prints if known.get(path) != prints[path]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        told = pool.map(lambda path: lint_c(tree, path, commands[path]), files)
        findings = dict(zip(files, told))
    remember(tree, {path: prints[path] for path in prints if not findings.get(path)})
    problems = sorted({line for lines in findings.values() for line in lines})
    problems += lint_rust(tree, "cli", "cargo") + lint_rust(tree, "bindings/rust", "cargo-bindings")
    unchanged = len(prints) - len(files)
    return Outcome(f"clang-tidy on {len(files)} files ({unchanged} unchanged), clippy", problems)
