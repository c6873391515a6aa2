"""Every flavour compiles without a warning."""

import re
import subprocess

from house.report import Outcome

CONFIGURE = ["cmake", "-S", ".", "-B", "build/cmake-warnings", "-DPRIMALLOC_WERROR=ON",
             "-DPRIMALLOC_BUILD_TESTS=ON"]
TARGETS = ["primalloc_products", "primalloc_checked", "primalloc_prefixed_tsan"]


def check(tree):
    folder = "build/cmake-warnings"
    tree.run(*CONFIGURE)
    build = ["cmake", "--build", folder, "--parallel", "--target", *TARGETS]
    done = subprocess.run(build, cwd=tree.root, text=True, capture_output=True)
    text = done.stdout + done.stderr
    lines = re.findall(r"^(\S+:\d+:\d+: (?:fatal )?error: .*)$", text, re.M)
    problems = sorted({line.replace(f"{tree.root}/", "") for line in lines})
    if done.returncode != 0 and not problems:
        problems = [text.strip()[-400:]]
    return Outcome("release, checked and tsan flavours", problems)
