"""Facts about the machine and the moment, kept beside every result."""

import datetime
import hashlib
import os
import platform
import subprocess
from pathlib import Path

from .environment import ROOT

MEASURED = ("src", "include", "cmake", "CMakeLists.txt", "bench/rows.toml", "bench/apps",
            "bench/workloads", "bench/peers")


def first_line(path):
    try:
        return Path(path).read_text().strip().splitlines()[0]
    except (OSError, IndexError):
        return "unknown"


def bracketed(text):
    """The choice in force of a kernel setting such as "always [madvise] never"."""
    return text.partition("[")[2].partition("]")[0] or text


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.lower().startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_gib():
    kib = int(first_line("/proc/meminfo").split()[1])
    return round(kib / 1024 / 1024, 1)


def git_commit():
    """The commit measured, with a mark when the work tree differs from it."""
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "include")
    return commit + (" with changes" if changed else "")


def measured_sources():
    """A digest of what the figures depend on: the library, the rows and their programs."""
    digest = hashlib.sha256()
    for place in MEASURED:
        found = [ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*"))
        for path in found:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def compiler():
    answer = subprocess.run(["cc", "--version"], stdout=subprocess.PIPE, text=True, check=False)
    return answer.stdout.splitlines()[0] if answer.stdout else "unknown"


def machine_facts():
    huge_pages = "/sys/kernel/mm/transparent_hugepage"
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": memory_gib(),
        "kernel": platform.release(),
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "compiler": compiler(),
        "transparent_huge_pages": bracketed(first_line(f"{huge_pages}/enabled")),
        "huge_page_defrag": bracketed(first_line(f"{huge_pages}/defrag")),
        "overcommit": first_line("/proc/sys/vm/overcommit_memory"),
        "load_before": round(os.getloadavg()[0], 2),
        "commit": git_commit(),
        "sources": measured_sources(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
