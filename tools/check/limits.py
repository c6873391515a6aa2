"""Small rooms: a file of at most 500 lines, a function of 60, a line of 100 columns."""

from house.report import Outcome
from house.source import FUNCTIONS
from house.tree import is_text_program

FILE_LINES, FUNCTION_LINES, COLUMNS = 500, 60, 100
FOLDERS = ["src", "include", "tests", "cli/src", "cli/tests", "bench", "tools"]

# A file that may break a limit, and why. An entry that is no longer needed is itself a violation.
ALLOWED = {"include/primalloc.h": "the whole interface; its reference is made of its comments"}


def violations(text, language):
    """(kind, line, sentence) for everything in one file that is too large."""
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        yield "file", 1, f"{len(lines)} lines, {FILE_LINES} allowed"
    for number, line in enumerate(lines, 1):
        if len(line.expandtabs(4)) > COLUMNS:
            yield "line", number, f"{len(line.expandtabs(4))} columns, {COLUMNS} allowed"
    for name, line, length in FUNCTIONS[language](text):
        if length > FUNCTION_LINES:
            yield "function", line, f"{name} has {length} lines, {FUNCTION_LINES} allowed"


def check(tree, allowed=None):
    allowed = ALLOWED if allowed is None else allowed
    problems, files, functions, spared = [], 0, 0, set()
    for path in tree.files(*FOLDERS):
        language = is_text_program(tree, path)
        if language is None:
            continue
        text = tree.read(path)
        files += 1
        functions += len(FUNCTIONS[language](text))
        for _, line, sentence in violations(text, language):
            if path in allowed:
                spared.add(path)
            else:
                problems.append(f"{path}:{line}: {sentence}")
    problems += [f"{path}: needs no exception any more; take it out of tools/check/limits.py"
                 for path in sorted(set(allowed) - spared) if tree.exists(path)]
    return Outcome(f"{files} files, {functions} functions, {len(allowed)} exceptions", problems)
