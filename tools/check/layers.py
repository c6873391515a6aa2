"""Folder = layer: a file includes its own folder and lower ones only, and never in a circle."""

import re
from pathlib import Path

from house.report import Outcome
from house.tree import C_SUFFIXES

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def includes_of(tree, path):
    text = tree.read(path)
    return [(match.group(1), text.count("\n", 0, match.start()) + 1)
            for match in INCLUDE.finditer(text)]


def judge_include(tree, ranks, path, name):
    """Why this include breaks the rule, or None."""
    if name.endswith(".c"):
        return f'includes the source file "{name}"'
    if tree.exists(f"include/{name}"):
        return None
    if name.count("/") != 1 or name.split("/")[0] not in ranks:
        return f'"{name}" is not written "folder/file.h" with a folder of src/LAYERS'
    if not tree.exists(f"src/{name}"):
        return f'"{name}" does not exist'
    own, other = path.split("/")[1], name.split("/")[0]
    if ranks[other] > ranks[own]:
        return f'"{name}" lies above its own layer: {own} is below {other}'
    return None


def find_cycle(graph):
    """One circle of includes as a list of files, or None."""
    state = {}

    def visit(node, trail):
        state[node] = "open"
        for following in graph.get(node, ()):
            if state.get(following) == "open":
                return trail[trail.index(following):] + [following]
            if following not in state:
                circle = visit(following, trail + [following])
                if circle:
                    return circle
        state[node] = "closed"
        return None

    for node in sorted(graph):
        if node not in state:
            circle = visit(node, [node])
            if circle:
                return circle
    return None


def check(tree):
    layers = tree.read("src/LAYERS").split()
    ranks = {name: rank for rank, name in enumerate(layers)}
    problems = []
    for entry in sorted(tree.path("src").iterdir()):
        if entry.is_dir() and entry.name not in ranks:
            problems.append(f"src/{entry.name}: the folder is not named in src/LAYERS")
    for name in layers:
        if not tree.path(f"src/{name}").is_dir():
            problems.append(f"src/LAYERS: there is no folder src/{name}")
    files = [path for path in tree.files("src", suffixes=C_SUFFIXES | {".def"})
             if path.split("/")[1] in ranks]
    graph, count = {}, 0
    for path in files:
        for name, line in includes_of(tree, path):
            count += 1
            reason = judge_include(tree, ranks, path, name)
            if reason:
                problems.append(f"{path}:{line}: {reason}")
            graph.setdefault(path, []).append(f"src/{name}")
    circle = find_cycle(graph)
    if circle:
        problems.append("circle of includes: " + " -> ".join(Path(node).name for node in circle))
    return Outcome(f"{len(files)} files, {count} includes, {len(layers)} layers", problems)
