"""Surroundings that break allocators: limits, closed descriptors, odd environments, one processor,
strict overcommit, privileges that changed."""

import os
import pathlib
import re
import shutil
import stat
import subprocess

import pytest

from harness import require

EXERCISED = b"exercised\n"
PYTHON = "/usr/bin/python3"


LIMITED = {
    "bash": ["bash", "-c", "for i in {1..2000}; do x+=$i; done; echo ${#x} | cat"],
    "python3": [PYTHON, "-c", "import json; print(len(json.dumps(list(range(100000)))))"],
    "gcc": ["gcc", "-O2", "-c", "-o", "main.o", "main.c"],
    "perl": ["perl", "-e", "my %h; $h{$_} = 'x' x 50 for 1..50000; print scalar keys %h"],
    "sort": ["bash", "-c", "seq 100000 | sort -r | tail -1"],
}


@pytest.mark.parametrize("name", LIMITED)
def test_t17_limited_address_space(harness, each_library, name):
    """T17"""
    source = harness.directory / "main.c"
    source.write_text("#include <stdio.h>\nint main(void) { puts(\"\"); }\n")
    script = 'ulimit -v 300000 && exec "$@"'
    command = ["bash", "-c", script, "limited", *LIMITED[name]]
    expected = harness.run(command)
    got = harness.run(command, environment=harness.environment(LD_PRELOAD=str(each_library)))
    assert got.stdout == expected.stdout


def test_t17_limited_address_space_with_threads(harness, fixtures, each_library):
    command = ["bash", "-c", f"ulimit -v 300000 && exec {fixtures('exercise.c')}"]
    environment = harness.environment(LD_PRELOAD=str(each_library))
    assert harness.run(command, environment=environment).stdout == EXERCISED


def test_t17_very_small_address_space(harness, library):
    """Less room than the library might like to reserve: the shell still runs."""
    for kilobytes in (64000, 32000, 20000):
        script = f"ulimit -v {kilobytes} && exec bash -c 'x=1; echo $((x + 1))'"
        assert harness.run_preloaded(["bash", "-c", script]).stdout == b"2\n"


def test_t17_threads_have_what_the_limit_leaves(harness, library):
    """The map is 8 GiB, and nobody can give it up while there are threads."""
    script = """
import threading
end = threading.Event()
threading.Thread(target=end.wait).start()
blocks = []
try:
    while True:
        blocks.append(bytes(64 << 20))
except MemoryError:
    end.set()
print(len(blocks) // 16)
"""
    command = ["bash", "-c", f"ulimit -v {10 << 20} && exec {PYTHON} -c '{script}'"]
    assert int(harness.run_preloaded(command).stdout) >= 9


def test_limited_data(harness, each_library):
    """What is only reserved is no data: `ulimit -d` leaves nearly as much as with libc's malloc."""
    for command in ('x=1; echo $((x + 1))', 'seq 20000 | sort -n | tail -1'):
        script = ["bash", "-c", f"ulimit -d 4000 && {command}"]
        expected = harness.run(["bash", "-c", command])
        environment = harness.environment(LD_PRELOAD=str(each_library))
        assert harness.run(script, environment=environment).stdout == expected.stdout


def test_limit_set_inside_the_process(harness, library):
    script = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
try:
    bytearray(1 << 30)
except MemoryError:
    print('refused')
print(len([bytes(1000) for _ in range(100000)]))
"""
    result = harness.run_preloaded([PYTHON, "-c", script], changes={"PYTHONMALLOC": "malloc"})
    assert result.stdout == b"refused\n100000\n"


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
@pytest.mark.parametrize("setting", ["", "PRIMALLOC_VERBOSE=1", "PRIMALLOC_SHOW_STATS=1",
                                     "PRIMALLOC_LEAK_CHECK=normal PRIMALLOC_LEAK_EXIT=0",
                                     "MALLOC_CHECK_=3"])
def test_t04_closed_descriptors(harness, each_library, closed, setting):
    """T04: nothing that the library prints may land in a file that reused descriptor 2."""
    victim = harness.directory / "victim"
    script = ("import os, sys\n"
              "for _ in range(3): fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
              "os.write(fd, b'mine')\n")
    command = ["bash", "-c", f'exec "$@" {closed}', "closed", PYTHON, "-c", script, victim]
    changes = dict(pair.split("=") for pair in setting.split())
    harness.run(command, environment=harness.environment(LD_PRELOAD=str(each_library), **changes))
    assert victim.read_bytes() == b"mine"


@pytest.mark.parametrize("setting, call", [
    ("PRIMALLOC_SHOW_ERRORS=1", "malloc(ctypes.c_size_t(-1))"),
    ("PRIMALLOC_VERBOSE=1", "mallopt(-8, 2)"),
    ("PRIMALLOC_HARDENED=1 PRIMALLOC_HARDENED_GO_ON=1", "free(ctypes.c_void_p(16))"),
])
def test_t04_what_is_said_later(harness, library, setting, call):
    """T04: the same while the program runs."""
    victim = harness.directory / "victim"
    script = ("import ctypes, os, sys\n"
              "for _ in range(3): fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
              f"ctypes.CDLL(None).{call}\n"
              "os.write(fd, b'mine')\n")
    changes = dict(pair.split("=") for pair in setting.split())
    told = harness.run_preloaded([PYTHON, "-c", script, victim], changes=changes)
    assert told.stderr.count(b"\n") > 0  # there is something to say
    victim.unlink()
    harness.run_preloaded(["bash", "-c", 'exec "$@" 2>&-', "closed", PYTHON, "-c", script, victim],
                          changes=changes)
    assert victim.read_bytes() == b"mine"


def test_handlers_wait_for_nobody(harness, fixtures, each_library):
    """Not even where the heap is asked how much of it is free."""
    program = fixtures("free_in_handler.c")
    result = harness.run([program], environment=harness.environment(LD_PRELOAD=str(each_library)))
    assert result.stdout == b"done\n"


def test_verbose_speaks_once_on_standard_error(harness, library):
    result = harness.run_preloaded(["true"], changes={"PRIMALLOC_VERBOSE": "1"})
    lines = result.stderr.decode().splitlines()
    assert lines[0].startswith("primalloc ") and all(line.startswith("  ") for line in lines[1:])
    assert "  verbose         1          PRIMALLOC_VERBOSE" in lines
    assert result.stdout == b""


def test_quiet_by_default(harness, library):
    result = harness.run_preloaded(["bash", "-c", "true; ls / >/dev/null"])
    assert (result.stdout, result.stderr) == (b"", b"")


def test_empty_environment(harness, fixtures, each_library):
    command = ["env", "-i", f"LD_PRELOAD={each_library}", fixtures("exercise.c")]
    assert harness.run(command).stdout == EXERCISED


def test_strange_options_are_survived(harness, fixtures, each_library):
    strange = ["=", ",,,", "min_align", "min_align=", "min_align=banana", "min_align=-1",
               "min_align=99999999999999999999999", "unknown=1", "purge_delay=1s,purge=0", "\xff=",
               "a" * 10000, "stats=full,", "=full"]
    program = fixtures("exercise.c")
    for text in strange:
        environment = harness.environment(LD_PRELOAD=str(each_library), PRIMALLOC_OPTIONS=text)
        assert harness.run([program], environment=environment).stdout == EXERCISED
    environment = harness.environment(LD_PRELOAD=str(each_library), PRIMALLOC_MIN_ALIGN="x",
                                      PRIMALLOC_HANDSHAKE="7:1:1",
                                      PRIMALLOC_STATS_OUTPUT="/no/such/folder/file")
    assert harness.run([program], environment=environment).stdout == EXERCISED


def test_a_malloc_above_the_limit_gives_the_map_up(harness):
    """So that a process which lowers its own limit has room for threads and mappings of its own."""
    script = """
import ctypes, mmap, resource, threading
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
print(malloc(ctypes.c_size_t(2 << 30)), len(mmap.mmap(-1, 100 << 20)) >> 20)
thread = threading.Thread(target=print, args=["thread"])
thread.start()
thread.join()
"""
    assert harness.run_preloaded([PYTHON, "-c", script]).stdout == b"None 100\nthread\n"


def test_the_map_stays_while_another_thread_may_look_into_it(harness, fixtures, each_library):
    """It has no cache to be counted by: it is past the destructor that ends one."""
    environment = harness.environment(LD_PRELOAD=str(each_library))
    result = harness.run([fixtures("lowered_limit.c")], environment=environment)
    assert result.stdout == b"no more\nmore\n"


def test_blocks_grow_under_a_limit_that_was_lowered(harness):
    """Below what is in use the kernel moves no pages, and no new address space is to be had."""
    script = """
import resource
big = [bytearray(64 << 20)]
growing = bytearray(8 << 20)
behind = bytearray(1 << 20)
big = None
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for number in range(60):
    growing.extend(bytes([number]) * (1 << 20))
print(len(growing) >> 20, growing[8 << 20], growing[-1], behind[-1])
"""
    changes = {"PYTHONMALLOC": "malloc"}
    assert harness.run_preloaded([PYTHON, "-c", script], changes=changes).stdout == b"68 0 59 0\n"


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_heap_that_was_used_up_gives_large_blocks_again(harness, limit):
    """Nothing of ours lies between what the heap has: freed, it joins to one piece."""
    script = f"""
import resource
resource.setrlimit(resource.{limit}, (2 << 30, 2 << 30))
blocks = []
try:
    while True:
        blocks.append(bytes(4 << 20))
except MemoryError:
    print(len(blocks) > 300)
blocks = None
print(len(bytes(1 << 30)) >> 30)
"""
    changes = {"PYTHONMALLOC": "malloc"}
    assert harness.run_preloaded([PYTHON, "-c", script], changes=changes).stdout == b"True\n1\n"


@pytest.mark.parametrize("path, options", [("/no/such/file", ""), ("line", "confined=1")])
def test_a_line_of_statistics_that_cannot_be_written(harness, path, options):
    """Who is confined opens no file for it, which a filter may forbid."""
    changes = {"PRIMALLOC_STATS_OUTPUT": path, "PRIMALLOC_OPTIONS": options}
    result = harness.run_preloaded(["true"], changes=changes)
    assert result.stderr == f"primalloc: cannot write {path}\n".encode()
    assert not list(harness.directory.iterdir())


def test_a_line_of_statistics_that_must_not_be_written(harness):
    """Beyond the limit on files a write ends a process by a signal, a pipe may have no reader."""
    output, pipe = harness.directory / "line", harness.directory / "pipe"
    output.write_bytes(b"x" * 1000)
    os.mkfifo(pipe)
    for path in (output, pipe):
        command = ["bash", "-c", 'ulimit -f 1 && exec "$@"', "limited", "true"]
        result = harness.run_preloaded(command, changes={"PRIMALLOC_STATS_OUTPUT": str(path)},
                                       timeout=20)
        assert result.stderr == f"primalloc: cannot write {path}\n".encode()
    assert output.stat().st_size == 1000


def test_a_line_of_statistics_stays_one(harness):
    """Whatever the program is called."""
    output = harness.directory / "line"
    harness.run_preloaded(["bash", "-c", 'exec -a "$1" sleep 0', "", "a \n\x1b%\xff" + "\n" * 240],
                          changes={"PRIMALLOC_STATS_OUTPUT": str(output)})
    names = r"program=a %0a%1b%25%c3%bf" + "%0a" * 240
    assert re.fullmatch(rf"primalloc pid=\d+ {names} foreign=0\n", output.read_text())


def test_calls_that_nobody_counted_are_not_told(harness):
    output = harness.directory / "line"
    harness.run_preloaded(["true"], changes={"PRIMALLOC_STATS_OUTPUT": str(output)})
    assert re.fullmatch(r"primalloc pid=\d+ program=true foreign=0\n", output.read_text())


@pytest.mark.parametrize("value", ["", "1", "a:b:c", "1:0:0", "999999:1:1", "-1:-1:-1", "1:1:1:1"])
def test_wrong_handshake_is_ignored(harness, library, value):
    changes = {"PRIMALLOC_HANDSHAKE": value}
    result = harness.run_preloaded(["echo", "untouched"], changes=changes)
    assert result.stdout == b"untouched\n"


def test_handshake(harness, library):
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    status = os.fstat(writer)
    changes = {"PRIMALLOC_HANDSHAKE": f"{writer}:{status.st_dev}:{status.st_ino}"}
    script = "import os; print(os.environ.get('PRIMALLOC_HANDSHAKE'))"
    result = harness.run_preloaded([PYTHON, "-c", script], changes=changes, pass_fds=(writer,))
    os.close(writer)
    with os.fdopen(reader) as answer:
        words = answer.read().split()
    assert words[0] == "primalloc" and len(words) == 3
    assert result.stdout == b"None\n"


def test_t22_one_processor(harness, fixtures, each_library):
    require("taskset")
    command = ["taskset", "-c", str(max(os.sched_getaffinity(0))), fixtures("exercise.c")]
    environment = harness.environment(LD_PRELOAD=str(each_library))
    assert harness.run(command, environment=environment).stdout == EXERCISED


def test_t23_without_restartable_sequences(harness, fixtures, each_library):
    """T23"""
    environment = harness.environment(LD_PRELOAD=str(each_library),
                                      GLIBC_TUNABLES="glibc.pthread.rseq=0")
    assert harness.run([fixtures("exercise.c")], environment=environment).stdout == EXERCISED


def test_few_threads_allowed(harness, fixtures, library):
    """No thread of the library's own is needed, and none may be missed when it cannot start."""
    script = "ulimit -u 1 2>/dev/null; exec bash -c 'for i in {1..3000}; do x+=$i; done; echo ok'"
    assert harness.run_preloaded(["bash", "-c", script]).stdout == b"ok\n"


def test_t42_single_threaded_programs_stay_so(harness, library):
    """T42"""
    script = "print(len(__import__('os').listdir('/proc/self/task')))"
    assert harness.run_preloaded([PYTHON, "-c", script]).stdout == b"1\n"


@pytest.fixture
def strict_overcommit():
    """T18: vm.overcommit_memory=2, put back afterwards."""
    mode = pathlib.Path("/proc/sys/vm/overcommit_memory")
    ratio = pathlib.Path("/proc/sys/vm/overcommit_ratio")
    before = mode.read_text(), ratio.read_text()
    try:
        ratio.write_text("95")
        mode.write_text("2")
    except OSError as error:
        pytest.skip(f"vm.overcommit_memory cannot be set here: {error.strerror}")
    try:
        yield
    finally:
        mode.write_text(before[0])
        ratio.write_text(before[1])


def test_t18_strict_overcommit(harness, fixtures, library, strict_overcommit):
    """What the library maps but does not use must not count as promised memory."""
    committed = pathlib.Path("/proc/meminfo")

    def committed_kilobytes() -> int:
        lines = committed.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Committed_AS"))

    before = committed_kilobytes()
    sleeper = subprocess.Popen(["sleep", "30"], env=harness.preloaded())
    try:
        assert committed_kilobytes() - before < 256 << 10
        assert harness.run_preloaded([fixtures("exercise.c")]).stdout == EXERCISED
        script = "echo $(seq 1000 | tail -1)"
        assert harness.run_preloaded(["bash", "-c", script]).stdout == b"1000\n"
    finally:
        sleeper.terminate()
        sleeper.wait()


def test_t18_strict_overcommit_refuses(harness, library, strict_overcommit):
    """More than the machine has is refused at once, and then the program goes on."""
    script = """
try:
    bytearray(1 << 42)
except MemoryError:
    print('refused')
print(len([bytes(1000) for _ in range(100000)]))
"""
    result = harness.run_preloaded([PYTHON, "-c", script], changes={"PYTHONMALLOC": "malloc"})
    assert result.stdout == b"refused\n100000\n"


def test_t19_full_map_table(harness, library):
    """T19: as many mappings as the kernel allows; allocating and freeing fails softly or works."""
    script = """
import mmap, ctypes
limit = int(open('/proc/sys/vm/max_map_count').read())
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
for i in range(limit * 2):
    if libc.mmap(None, 4096, 1 + 2 * (i % 2), 0x22, -1, 0) == 2**64 - 1:
        break
blocks = []
for size in (100, 5000, 100000, 3000000) * 50:
    try:
        blocks.append(bytearray(size))
    except MemoryError:
        pass
del blocks[::2]
del blocks
print('survived')
"""
    result = harness.run_preloaded([PYTHON, "-c", script], changes={"PYTHONMALLOC": "malloc"})
    assert result.stdout == b"survived\n"


@pytest.mark.parametrize("flags", ["1", "2", "3"])
def test_t21_locked_memory(harness, fixtures, library, flags):
    """T21: mlockall must not make reservations resident."""
    program = fixtures("locked_memory.c")
    expected = harness.run([program, flags], environment=harness.environment()).stdout
    got = harness.run_preloaded([program, flags]).stdout
    if expected == b"skipped\n":
        pytest.skip("mlockall is not allowed here")
    # 1 MiB of heap, 1 MiB of descriptors, and our variables.
    assert int(got) < int(expected) + 4000


def called_by_nobody(harness, built):
    """The command by which a user without rights calls a set-user-ID copy of the program."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    require("setpriv")
    program = harness.directory / "privileged"
    shutil.copy(built, program)
    os.chmod(program, 0o755 | stat.S_ISUID)
    os.chmod(harness.directory, 0o755)
    for parent in list(harness.directory.parents)[:3]:
        os.chmod(parent, os.stat(parent).st_mode | 0o011)
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", program]


def test_t13_set_user_id_program_ignores_the_environment(harness, fixtures, library):
    """A program that gained privileges must not write where its caller tells it to."""
    command = called_by_nobody(harness, fixtures("report_preload.c"))
    output = harness.directory / "must_not_exist"
    changes = {"PRIMALLOC_STATS": "full", "PRIMALLOC_STATS_OUTPUT": str(output),
               "PRIMALLOC_VERBOSE": "1"}
    environment = harness.environment(LD_PRELOAD=str(library), **changes)
    result = harness.run(command, environment=environment, check=False)
    assert result.returncode == 0, result.stderr
    assert b"works\n" in result.stdout
    assert not output.exists()


@pytest.mark.parametrize("static", [[], ["-static"]])
def test_t13_set_user_id_program_that_holds_the_archive(harness, fixtures, library, static):
    """No loader leaves that out: it must pass over the environment by itself."""
    archive = library.with_name("libprimalloc.a")
    program = fixtures("privileged.c", *static, str(archive), output=f"privileged{len(static)}")
    command = called_by_nobody(harness, program)
    output = harness.directory / "must_not_exist"
    changes = {"PRIMALLOC_SHARDS": "3", "PRIMALLOC_OPTIONS": "verbose=1,nonsense=1",
               "MALLOC_TOP_PAD_": "4096", "GLIBC_TUNABLES": "glibc.malloc.top_pad=4096"}
    assert harness.run([program], environment=harness.environment(**changes)).stdout == (
        b"plain 3 1 4096 1\n")
    changes["PRIMALLOC_STATS_OUTPUT"] = str(output)
    result = harness.run(command, environment=harness.environment(**changes))
    if result.stdout.startswith(b"plain"):
        pytest.skip("set-user-ID programs gain nothing here")
    assert (result.stdout, result.stderr) == (b"privileged 0 0 0 1\n", b"")
    assert not output.exists()


def test_privileges_dropped_later(harness, fixtures, library):
    """A daemon that starts as root and gives its privileges up goes on allocating."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    script = ("import os; os.setegid(65534); os.seteuid(65534); "
              "x = [bytes(i) for i in range(5000)]; print(len(x))")
    result = harness.run_preloaded([PYTHON, "-c", script], changes={"PYTHONMALLOC": "malloc"})
    assert result.stdout == b"5000\n"


def resident_kilobytes(harness, environment) -> int:
    """The peak of a small process by its own account, the least of some runs. (What wait4 tells
    begins with the peak of this process.)"""
    def measure() -> int:
        status = harness.run(["cat", "/proc/self/status"], environment=environment).stdout
        return int(re.search(rb"VmHWM:\s+(\d+)", status)[1])

    return min(measure() for _ in range(20))


def test_t58_fork_of_one_thread_writes_few_pages(harness, fixtures, library):
    """Nobody can hold a lock: none is taken, and the pages that locks lie in are not copied."""
    program = fixtures("fork_faults.c")

    def least_faults(run, **how):
        # Which pages of libc a child finds mapped is chance, and differs by up to two.
        return min(int(run([program], **how).stdout) for _ in range(5))

    expected = least_faults(harness.run, environment=harness.environment())
    assert least_faults(harness.run_preloaded) <= expected + 6


def test_t58_small_processes_stay_small(harness, library):
    """T58: what the preload costs a program that does nothing."""
    plain = resident_kilobytes(harness, harness.environment())
    ours = resident_kilobytes(harness, harness.preloaded())
    assert ours - plain <= 1024


def test_small_processes_run_a_part_of_the_library(harness, library):
    """What every process runs is a mapping of its own, and nobody needs a page of the rest."""
    maps = harness.run_preloaded(["cat", "/proc/self/smaps"]).stdout.decode()
    code = re.findall(r"^\S+ r-xp .*libprimalloc.*\n(?:\w.*\n)*?Size: +(\d+) kB\n"
                      r"(?:\w.*\n)*?Rss: +(\d+) kB", maps, re.MULTILINE)
    (near, resident), (rest, others) = [tuple(map(int, figures)) for figures in code]
    assert 0 < resident <= near <= 80 < rest
    assert others == 0


def test_limits_are_not_changed(harness, library):
    """The library leaves the process's limits as they were."""
    script = "import resource as r; print([r.getrlimit(n) for n in range(16)])"
    expected = harness.run([PYTHON, "-c", script])
    assert harness.run_preloaded([PYTHON, "-c", script]).stdout == expected.stdout
