"""Nothing is left for later and nothing speaks of anything but the project."""

import re

from house.report import Outcome

# A letter in brackets keeps a pattern from matching its own line.
BANNED = {
    r"\bTOD[O]\b": "do it or leave it out",
    r"\bFIXM[E]\b": "mend it or leave it out",
    r"\bXX[X]\b": "say what is wrong, or mend it",
    r"\bHAC[K]\b": "say what it is instead",
    r"\b(?i:chat ?gp[t]|copilo[t]|claud[e]|gemin[i]|anthropi[c]|opena[i])\b": "the project only",
    r"\bA[I]\b|\bLL[M]s?\b|\b(?i:language mode[l]s?)\b": "the project only",
    r"\b(?i:assistan[t]s?|chatbo[t]s?)\b": "the project only",
    r"\b(?i:thi[s] (?:session|issue|task))\b": "a file outlives the day it was written on",
    r"(?<![\w/])[iI]ssu[e] #?\d+\b": "say what it is about",
}
SKIPPED_SUFFIXES = {".png", ".svg", ".lock", ".gz", ".ico"}


def check(tree):
    problems, files = [], 0
    patterns = [(re.compile(pattern), advice) for pattern, advice in BANNED.items()]
    for path in tree.files():
        if any(path.endswith(suffix) for suffix in SKIPPED_SUFFIXES):
            continue
        files += 1
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            for pattern, advice in patterns:
                match = pattern.search(line)
                if match:
                    problems.append(f"{path}:{number}: '{match.group(0)}': {advice}")
    return Outcome(f"{files} files, {len(BANNED)} patterns", problems)
