"""C, C++ and Rust are laid out as `make format` lays them out."""

import re
import subprocess

from house.report import Outcome


def check(tree):
    command = ["tools/format", "--check"]
    done = subprocess.run(command, cwd=tree.root, text=True, capture_output=True)
    text = done.stdout + done.stderr
    c_files = set(re.findall(r"^(\S+?):\d+:\d+: error: code should be clang-formatted", text, re.M))
    rust_files = set(re.findall(r"^Diff in (\S+?):\d+", text, re.M))
    names = sorted(c_files) + sorted(str(name).replace(f"{tree.root}/", "") for name in rust_files)
    problems = [f"{name}: `make format` lays it out" for name in names]
    if done.returncode != 0 and not problems:
        problems = [text.strip()[-400:]]
    return Outcome("clang-format and cargo fmt", problems)
