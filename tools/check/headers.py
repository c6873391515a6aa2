"""Every public header compiles alone, without a warning, as C11, C++11 and C++20."""

from pathlib import Path
import subprocess

from house.report import Outcome

STANDARDS = {
    ".h": [("gcc", "c", "c11"), ("g++", "c++", "c++11"), ("g++", "c++", "c++20")],
    ".hpp": [("g++", "c++", "c++17"), ("g++", "c++", "c++20")],
}


def check(tree):
    headers = tree.files("include", suffixes=set(STANDARDS))
    problems = [] if headers else ["include/: holds no header"]
    for path in headers:
        for compiler, language, standard in STANDARDS[Path(path).suffix]:
            command = [compiler, "-x", language, f"-std={standard}", "-fsyntax-only", "-Iinclude",
                       "-pedantic", "-Wall", "-Wextra", "-Werror", path]
            done = subprocess.run(command, cwd=tree.root, text=True, capture_output=True)
            if done.returncode != 0:
                errors = [line for line in done.stderr.splitlines() if "error" in line]
                problems.append(f"{standard}: {errors[0] if errors else done.stderr[:200]}")
    return Outcome(f"{len(headers)} headers", problems)
