"""What the command lines of the benchmarks have in common.

Only the standard library may be imported here: it is needed before build/venv is entered.
"""

import argparse
import math
import signal
import sys
import tempfile
from contextlib import contextmanager

from .environment import BenchError


def above_zero(kind):
    """For argparse: reads a number of this kind that is above 0."""
    def read(text):
        try:
            number = kind(text)
        except ValueError:
            number = 0
        if not 0 < number < math.inf:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"'{text}' is not a {what} above 0")
        return number
    return read


def numbers(text):
    """For argparse: whole numbers above 0 with commas."""
    return tuple(map(above_zero(int), text.split(",")))


@contextmanager
def tidy_end(interrupted="interrupted"):
    """What a person has to put right ends the program with one line, and so does being told to
    stop, even where a shell started it with interrupts ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    except BenchError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(interrupted)


def scratch_folder(name):
    """A folder that is gone at the end, whatever a program that was killed has left in it."""
    return tempfile.TemporaryDirectory(prefix=f"primalloc-{name}-", ignore_cleanup_errors=True)


def make_folder(path):
    """Make the folder of the results, and see that it can be written to before an hour is spent."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise BenchError(f"nothing can be written to {path}: {error.strerror}") from error
