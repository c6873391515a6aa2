"""Seccomp filters (T20), written for the system calls of glibc's malloc, and kernels that lack what
is new."""

import re
import subprocess

import pytest

# What glibc's malloc calls after main has begun; the first test measures it.
MALLOC_CALLS = ["brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "futex"]
# What glibc's own pthread_create and the end of a thread call.
THREAD_CALLS = ["clone", "clone3", "rseq", "set_robust_list", "rt_sigprocmask", "rt_sigaction",
                "exit"]
# What fork and waitpid call beside clone.
FORK_CALLS = ["wait4"]
DONE = b"confined\n"


def test_t20_what_glibc_calls(harness, fixtures):
    """The list that the filters below are made of is no longer than glibc's own."""
    seen = set()
    for work in ("few", "few_threads"):
        trace = harness.directory / work
        harness.run(["strace", "-f", "-o", trace, fixtures("confined.c"), work, "trace"])
        lines = trace.read_text().split("getppid()")[1]
        seen |= set(re.findall(r"^\d+ +(\w+)\(", lines, re.MULTILINE))
    assert set(MALLOC_CALLS) <= seen


@pytest.mark.parametrize("how", ["prctl", "seccomp"])
@pytest.mark.parametrize("work", ["single", "threads"])
def test_t20_killed_for_any_other_call(preload, fixtures, call_numbers, library, work, how):
    """A heap of 1 GiB that is filled, moved, freed, trimmed; with default options."""
    calls = MALLOC_CALLS + (THREAD_CALLS if work == "threads" else [])
    result = preload(library, fixtures("confined.c"), work, how, *call_numbers(*calls))
    assert result.stdout == DONE


@pytest.mark.parametrize("settings", [{}, {"PRIMALLOC_MAINTENANCE": "0"},
                                      {"PRIMALLOC_HARDENED": "1"}])
def test_t20_forks(preload, fixtures, call_numbers, each_library, settings):
    """Threads, a child of them with threads of its own, and a child of that."""
    calls = call_numbers(*MALLOC_CALLS, *THREAD_CALLS, *FORK_CALLS)
    result = preload(each_library, fixtures("confined.c"), "few_forks", "prctl", *calls, **settings)
    assert result.stdout == DONE


def test_t20_a_child_by_clone(preload, fixtures, call_numbers, each_library):
    """Who makes a child by the bare system call, for namespaces of its own, confines it, too."""
    calls = call_numbers(*MALLOC_CALLS)
    result = preload(each_library, fixtures("confined.c"), "few_cloned", "prctl", *calls)
    assert result.stdout == DONE


def test_t20_a_child_by_clone_that_may_not_ask(preload, fixtures, call_numbers, each_library):
    """A change of user, a name space or an outer filter keeps it from comparing its memory with its
    parent's."""
    jail = [fixtures("jail.c"), "enosys", *call_numbers("kcmp"), "--"]
    calls = call_numbers(*MALLOC_CALLS)
    result = preload(each_library, *jail, fixtures("confined.c"), "few_cloned", "prctl", *calls)
    assert result.stdout == DONE


def test_t20_checked_library(preload, fixtures, call_numbers, each_library):
    calls = call_numbers(*MALLOC_CALLS, *THREAD_CALLS)
    result = preload(each_library, fixtures("confined.c"), "few_threads", "prctl", *calls)
    assert result.stdout == DONE


@pytest.mark.parametrize("how", ["all", "option"])
def test_t20_a_filter_for_all_threads(preload, fixtures, call_numbers, each_library, how):
    """Ours, which gave back what was just freed, has ended when the filter comes."""
    result = preload(each_library, fixtures("confined.c"), "few", how,
                     *call_numbers(*MALLOC_CALLS))
    assert result.stdout == DONE


def test_t20_a_limit_on_address_space(preload, fixtures, call_numbers, each_library):
    """Who may not ask for the limit makes room when there is none: of 6,291 blocks nearly all."""
    result = preload(each_library, fixtures("confined_limit.c"), *call_numbers(*MALLOC_CALLS))
    assert int(result.stdout) > 5000


@pytest.mark.parametrize("settings", [{}, {"PRIMALLOC_CONFINED": "1"}])
def test_t20_statistics_name_the_process(preload, fixtures, call_numbers, each_library, settings):
    result = preload(each_library, fixtures("confined.c"), "few_told", "prctl",
                     *call_numbers(*MALLOC_CALLS), **settings)
    assert result.stdout == DONE
    assert re.match(rb"primalloc \S+ in process [1-9]\d* \(confined\)\n", result.stderr)


def test_t20_linked_statically(harness, fixtures, call_numbers, archive):
    program = fixtures("confined.c", "-static", "-Wl,--whole-archive", str(archive),
                       "-Wl,--no-whole-archive", output="confined_static")
    result = harness.run([program, "single", "prctl", *call_numbers(*MALLOC_CALLS)])
    assert result.stdout == DONE


def test_t20_jail_from_outside(preload, fixtures, call_numbers, library):
    """A jail that is inherited by exec is told by an option: no call that glibc lacks, not even
    before main."""
    ours = call_numbers("prctl", "mincore", "clock_gettime", "getcpu", "getrusage", "clone3",
                        "clone", "sched_getaffinity", "membarrier", "process_madvise", "fcntl")
    result = preload(library, fixtures("jail.c"), "kill", *ours, "--", fixtures("confined.c"),
                     "single", "trace", PRIMALLOC_CONFINED="1")
    assert result.stdout == DONE


def test_t20_the_filter_does_kill(preload, fixtures, call_numbers, library):
    """The same without madvise: the test can fail."""
    calls = [name for name in MALLOC_CALLS if name != "madvise"]
    result = preload(library, fixtures("confined.c"), "single", "prctl", *call_numbers(*calls),
                     check=False)
    assert result.returncode == -31  # SIGSYS


def test_t20_vfork_child_confines_itself_only(preload, fixtures, library):
    """What shares our memory until it becomes another program leaves us as we were."""
    result = preload(library, fixtures("vfork_confined.c"))
    assert result.stdout == b"maintained\n"


def test_t20_vfork_child_that_may_not_ask(preload, fixtures, call_numbers, library):
    """It confines us, but nobody takes its number for ours."""
    jail = [fixtures("jail.c"), "enosys", *call_numbers("kcmp"), "--"]
    result = preload(library, *jail, fixtures("vfork_confined.c"), "number")
    number = re.fullmatch(rb"alone\nnumber (\d+)\n", result.stdout).group(1)
    assert b" in process %s (vfork_confined)" % number in result.stderr


def test_t20_man(preload, harness, need, library):
    """man filters what formats its pages."""
    need("man", "groff")
    page = harness.directory / "page.1"
    page.write_text(".TH PAGE 1\n.SH NAME\npage \\- " + "a page of many words " * 500 + "\n")
    expected = harness.run(["man", "-l", page])
    assert preload(library, "man", "-l", page).stdout == expected.stdout
    assert b"a page of many words" in expected.stdout


@pytest.mark.parametrize("work", ["few", "threads"])
def test_t20_old_kernel(preload, fixtures, library, work):
    """A kernel of 2018: what came later is answered with ENOSYS or EINVAL."""
    command = [fixtures("confined.c"), work, "trace"]
    result = preload(library, fixtures("jail.c"), "old", "--", *command)
    assert result.stdout == DONE


def test_t20_old_kernel_without_our_calls(preload, fixtures, call_numbers, library):
    """Every call that is not in glibc's set is refused; nobody notices."""
    ours = call_numbers("mincore", "clock_gettime", "getcpu", "getrusage", "sched_getaffinity",
                        "membarrier", "prctl")
    for command in ([fixtures("confined.c"), "few_threads", "trace"], [fixtures("exercise.c")]):
        result = preload(library, fixtures("jail.c"), "enosys", *ours, "--", *command)
        assert result.stdout in (DONE, b"exercised\n")
