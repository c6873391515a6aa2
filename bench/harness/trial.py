"""One trial: one program under one allocator, with what it cost."""

import json
import os
import subprocess
from dataclasses import dataclass

from .environment import BenchError, helper

OUTPUT_KEPT = 300
# What variables begin with that steer an allocator, the loader, or what a program asks of either.
STEERING = ("LD_", "MALLOC_", "GLIBC_TUNABLES", "MIMALLOC_", "TCMALLOC_", "SCUDO_", "PRIMALLOC_",
            "VIRTUAL_ENV", "PYTHON")


@dataclass
class Outcome:
    """What a trial gave: the launcher's figures, the output, "" or what went wrong, and the score
    where its row has one."""
    figures: dict
    output: str
    failure: str
    score_s: float | None = None


def clean_environment():
    """This process's environment without anything that steers an allocator or the loader."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(STEERING)}
    kept["LC_ALL"] = "C.UTF-8"
    return kept


def launcher():
    return helper("launch", "-static")


def run_trial(words, assignments, scratch, timeout_s):
    """Run a command through bench/helpers/launch.c in `scratch`, its output kept in a file."""
    report = scratch / "launch-report"
    output = scratch / "launch-output"
    report.unlink(missing_ok=True)
    command = [str(launcher()), str(timeout_s), str(report), words[0], *assignments, "--", *words]
    with open(output, "wb") as out, subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=scratch,
            env=clean_environment()) as process:
        try:
            process.wait()
        except BaseException:
            # It ends all that it has started; killed it could not.
            process.terminate()
            process.wait()
            raise
    text = output.read_text(errors="replace")
    if not report.exists():
        raise BenchError(f"the launcher failed: {text.strip()[-OUTPUT_KEPT:]}")
    figures = json.loads(report.read_text())
    return Outcome(figures, text, describe_failure(figures, text, timeout_s))


def describe_failure(figures, output, timeout_s):
    """"" when the program ended well, else in a few words how it did not."""
    if figures["timed_out"]:
        return f"timeout after {timeout_s:g} s"
    if figures["signal"]:
        return f"killed by signal {figures['signal']}"
    if figures["exit_status"] != 0:
        last = output.strip().splitlines()[-1:] or ["no output"]
        return f"exit status {figures['exit_status']}: {last[0][-OUTPUT_KEPT:]}"
    return ""
