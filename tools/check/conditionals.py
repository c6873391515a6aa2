"""`#if` lives in src/base and src/os only; elsewhere a feature is an option at run time."""

import re

from house.report import Outcome
from house.source import strip_c

HOMES = ("src/base/", "src/os/")
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)\b[ \t]*(.*)$", re.MULTILINE)
GUARD = re.compile(r"\s*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n[ \t]*#[ \t]*define[ \t]+\1[ \t]*\n")


def conditionals_of(text):
    """(line, directive) of each conditional that is neither include guard nor __cplusplus."""
    code = strip_c(text)
    guard = GUARD.match(code)
    for match in DIRECTIVE.finditer(code, guard.end() if guard else 0):
        if "__cplusplus" not in match.group(2):
            yield code.count("\n", 0, match.start()) + 1, match.group(0).strip()


def check(tree):
    problems, files = [], 0
    for path in tree.files("src", suffixes={".c", ".h", ".def"}):
        if path.startswith(HOMES):
            continue
        files += 1
        problems += [f"{path}:{line}: `{directive}`"
                     for line, directive in conditionals_of(tree.read(path))]
    return Outcome(f"{files} files above src/os", problems)
