"""The minimal library: a real program runs on it, and no observer is in it."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "build" / "lib"
MINIMAL = LIBRARIES / "libprimalloc-minimal.so"
ARCHIVE = LIBRARIES / "libprimalloc-minimal.a"
PROGRAM = """
import json, os, threading
def work(start, found):
    rows = [{"number": n, "text": str(n) * (n % 50)} for n in range(start, start + 20000)]
    found.append(len(json.dumps(rows)))
found = []
threads = [threading.Thread(target=work, args=(n * 20000, found)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
child = os.fork()
if child == 0:
    work(0, found)
    os._exit(len(found))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sum(found))
print("libprimalloc-minimal.so.0" in open("/proc/self/maps").read())
"""


def functions(path):
    """Names of all functions and variables, those inside the library included."""
    lines = subprocess.run(["nm", "--defined-only", path], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return {fields[2].split("@")[0] for fields in map(str.split, lines)
            if len(fields) == 3 and fields[1] in "tTdDbBrR"}


def observers():
    """What the files of src/watch give to others."""
    names = set()
    for path in (ROOT / "src" / "watch").glob("*.h"):
        names |= set(re.findall(r"^[a-z][\w \*]*?\b\*?(\w+)\([^;{]*\);", path.read_text(), re.M))
    return names


def test_a_real_program(harness):
    plain = harness.run(["python3", "-c", PROGRAM]).stdout.split()
    result = harness.run(["python3", "-c", PROGRAM], environment=harness.environment(
        LD_PRELOAD=str(MINIMAL), PYTHONMALLOC="malloc"))
    assert result.stdout.split() == [*plain[:2], b"True"]
    assert result.stderr == b""


def test_who_asks_for_an_observer_is_told(harness):
    result = harness.run(["bash", "-c", ":"], environment=harness.environment(
        LD_PRELOAD=str(MINIMAL), PRIMALLOC_PROFILE="heap.pb.gz", PRIMALLOC_SHOW_STATS="1"))
    told, statistics = result.stderr.decode().splitlines()
    assert told == "primalloc: PRIMALLOC_PROFILE does nothing in the minimal library"
    assert re.fullmatch(r"primalloc: heap of \d+ bytes, of these free \d+ maybe resident, "
                        r"\d+ not; most at a time \d+", statistics)
    assert not (harness.directory / "heap.pb.gz").exists()


def test_no_observer_is_in_it():
    watching = observers()
    assert len(watching) > 40
    assert len(watching & functions(LIBRARIES / "libprimalloc.so")) > 40, "the test sees them"
    for path in (MINIMAL, ARCHIVE):
        assert functions(path) & watching == set()


def test_it_has_the_names_of_the_full_library():
    def exported(path):
        return subprocess.run(["nm", "-D", "--defined-only", "--format=posix", path], check=True,
                              capture_output=True, text=True).stdout.splitlines()

    def names(path):
        return {line.split()[0] for line in exported(path)}

    assert names(MINIMAL) == names(LIBRARIES / "libprimalloc.so")
