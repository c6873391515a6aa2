"""Whether a preloaded library really serves the malloc family: a loader that can't load it only
prints a warning and goes on with libc's malloc, which would then be measured under a wrong name.

Only the standard library may be imported here: bench/peers/build uses it, too.
"""

import subprocess
from pathlib import Path

from .environment import BenchError, helper

CORE = ("malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign",
        "malloc_usable_size")


def functions_served(assignments):
    """{function: file that defines it} in a program with these NAME=VALUE assignments."""
    answer = subprocess.run(
        [helper("takeover", "-ldl")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=dict(one.split("=", 1) for one in assignments), check=False)
    if answer.returncode != 0:
        raise BenchError(f"a small program fails under it (status {answer.returncode}): "
                         f"{answer.stderr.strip()[-200:]}")
    return dict(line.split(" ", 1) for line in answer.stdout.splitlines())


def check_takes_over(library, assignments):
    """Raise BenchError unless every core function comes from the library; the functions served."""
    served = functions_served(assignments)
    foreign = [name for name in CORE if Path(served[name]).resolve() != library.resolve()]
    if foreign:
        raise BenchError(f"{library} does not take over {', '.join(foreign)}")
    return served
