"""The walks printed in docs/architecture.md name functions that exist, and stay short.

A walk stands between `<!-- walk:begin NAME -->` and `<!-- walk:end -->`; each of its numbered lines
names a file and a function of it in code spans. A line is a call; the walk of an allocation and its
free may have five of them in six files."""

import os
import re

from house.report import Outcome
from house.source import c_functions, strip_c

DOCUMENT = "docs/architecture.md"
WALK = re.compile(r"<!-- walk:begin ([\w-]+) -->\n(.*?)<!-- walk:end -->", re.DOTALL)
STEP = re.compile(r"^\d+\.\s+`([^`]+)`[^`\n]*`([^`]+)`", re.MULTILINE)
NUMBERED = re.compile(r"^\d+\.\s", re.MULTILINE)
BOUNDED = "malloc-free"
FILES_MOST, CALLS_MOST = 6, 5


def defines(tree, path, function):
    """Whether a file defines the function, or names it in a table or a macro's expansion."""
    text = tree.read(path)
    if path.endswith(".def"):
        return bool(re.search(rf"\b{re.escape(function)}\b", text))
    names = {name for name, _, _ in c_functions(text)}
    if function in names:
        return True
    name = re.escape(function)
    expansion = rf"^\s*#\s*define\s+{name}\b|^\s*[A-Z_]+\({name}\b"
    return bool(re.search(expansion, strip_c(text), re.MULTILINE))


def step_problem(tree, path, function):
    full = path if tree.exists(path) else os.path.join("src", path)
    if not tree.exists(full):
        return f"there is no file `{path}`"
    name = re.sub(r"\(.*", "", function)
    if not defines(tree, full, name):
        return f"`{path}` defines no `{name}`"
    return None


def check(tree):
    walks = WALK.findall(tree.read(DOCUMENT))
    problems, sizes = [], []
    for name, body in walks:
        steps = STEP.findall(body)
        if len(steps) != len(NUMBERED.findall(body)) or not steps:
            problems.append(f"{DOCUMENT}: walk {name}: a line is not N. `file` `function`")
        for path, function in steps:
            reason = step_problem(tree, path, function)
            problems += [f"{DOCUMENT}: walk {name}: {reason}"] if reason else []
        files = len({path for path, _ in steps})
        sizes.append(f"{name} {files} files {len(steps)} calls")
        if name == BOUNDED and (files > FILES_MOST or len(steps) > CALLS_MOST):
            problems.append(f"{DOCUMENT}: walk {name}: {files} files and {len(steps)} calls; "
                            f"at most {FILES_MOST} and {CALLS_MOST}")
    if BOUNDED not in [name for name, _ in walks]:
        problems.append(f"{DOCUMENT}: there is no walk named {BOUNDED}")
    return Outcome(", ".join(sizes) or "no walk", problems)
