"""Whether a preloaded library really serves the malloc family, and under the settings given: a
loader that can't load it only prints a warning and goes on with libc's malloc, and a library that
does not know a setting goes on without. What is measured would have a wrong name.

Only the standard library may be imported here: bench/peers/build uses it, too.
"""

import re
import subprocess
from pathlib import Path

from .environment import BenchError, helper

CORE = ("malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign",
        "malloc_usable_size")


# As primalloc and jemalloc say it; the other peers say nothing of a wrong setting.
COMPLAINT = re.compile(r"^.*(?:unknown option|ignoring value|Invalid conf).*", re.MULTILINE)


def functions_served(assignments):
    """{function: file that defines it} in a program with these NAME=VALUE assignments."""
    answer = subprocess.run(
        [helper("takeover", "-ldl")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=dict(one.split("=", 1) for one in assignments), check=False)
    if answer.returncode != 0:
        raise BenchError(f"a small program fails under it (status {answer.returncode}): "
                         f"{answer.stderr.strip()[-200:]}")
    if complaint := COMPLAINT.search(answer.stderr):
        raise BenchError(f"a setting is wrong: {complaint.group()}")
    return dict(line.split(" ", 1) for line in answer.stdout.splitlines())


def check_takes_over(library, assignments):
    """Raise BenchError unless every core function comes from the library; the functions served."""
    served = functions_served(assignments)
    foreign = [name for name in CORE if Path(served[name]).resolve() != library.resolve()]
    if foreign:
        raise BenchError(f"{library} does not take over {', '.join(foreign)}")
    return served
