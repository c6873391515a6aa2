"""Ways to come into a process: before everything, beside others, late by dlopen, into a namespace
of an auditor, into processes that start others."""

import os
import re
import shutil
import subprocess

import pytest

from harness import require

EXERCISED = b"exercised\n"


def preload_order(pair: list[str], order: str) -> str:
    """The first of the pair before or after the second one."""
    return ":".join(pair if order == "before" else pair[::-1])


def test_exercise(harness, fixtures, each_library):
    """The fixture itself, as a plain preload."""
    environment = harness.environment(LD_PRELOAD=str(each_library))
    assert harness.run([fixtures("exercise.c")], environment=environment).stdout == EXERCISED


@pytest.mark.parametrize("order", ["before", "after"])
def test_constructors_of_other_libraries_allocate(harness, fixtures, each_library, order):
    other = fixtures("early_constructor.c", "-shared")
    pair = [str(other), str(each_library)]
    environment = harness.environment(LD_PRELOAD=preload_order(pair, order))
    assert harness.run([fixtures("exercise.c")], environment=environment).stdout == EXERCISED
    assert harness.run(["sh", "-c", "echo $EARLY"], environment=environment).stdout == b"yes\n"


@pytest.mark.parametrize("order", ["before", "after"])
def test_t01_wrapped_system_calls(harness, fixtures, each_library, order):
    """T01: dlsym calls calloc while the allocator starts."""
    wrapper = fixtures("wrap_system_calls.c", "-shared")
    pair = [str(wrapper), str(each_library)]
    environment = harness.environment(LD_PRELOAD=preload_order(pair, order))
    result = harness.run([fixtures("exercise.c")], environment=environment, timeout=30)
    assert result.stdout == EXERCISED
    harness.run(["bash", "-c", "x=$(echo 1); echo $x | cat"], environment=environment, timeout=30)


@pytest.mark.parametrize("purge_delay", ["1000", "1"])
def test_t01_functions_with_names_of_system_calls(harness, fixtures, each_library, purge_delay):
    """T01: the program's own functions have names of libc's, and do nothing of the kind."""
    environment = harness.environment(LD_PRELOAD=str(each_library),
                                      PRIMALLOC_PURGE_DELAY=purge_delay)
    result = harness.run([fixtures("own_system_calls.c")], environment=environment, timeout=30)
    assert result.stdout == b"42 ticks, 1 calls\n"


def test_t02_faketime(harness, fixtures, library):
    """T02: an interposer of the clock."""
    require("faketime")
    command = ["faketime", "2020-01-01 00:00:00", "sh", "-c",
               f"LD_PRELOAD=$LD_PRELOAD:{library} {fixtures('exercise.c')}; date +%Y"]
    assert harness.run(command).stdout == EXERCISED + b"2020\n"


def test_t03_auditor(harness, fixtures, each_library):
    """T03: an auditor has its own namespace and its own libc."""
    auditor = fixtures("audit.c", "-shared")
    environment = harness.environment(LD_PRELOAD=str(each_library), LD_AUDIT=str(auditor))
    harness.run(["true"], environment=environment)
    assert harness.run([fixtures("exercise.c")], environment=environment).stdout == EXERCISED


def test_t07_late_dlopen(harness, fixtures, each_library):
    """T07: dlopen from a running program, dlclose while a thread still uses it."""
    assert harness.run([fixtures("exercise.c"), each_library]).stdout == EXERCISED


def test_t06_late_dlopen_after_many_thread_local_libraries(harness, fixtures, library):
    """T06: the reserve for static TLS is small, and others may have used it."""
    original = fixtures("thread_local.c", "-shared", "-DSIZE=64", "-ftls-model=global-dynamic")
    copies = []
    for number in range(60):
        copies.append(harness.directory / f"copy{number}.so")
        shutil.copy(original, copies[-1])
    program = fixtures("exercise.c")
    assert harness.run([program, *copies, library]).stdout == EXERCISED


def read_elf(option, library) -> str:
    command = ["readelf", option, library]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_t06_static_thread_local_storage_is_small(library):
    """T06: at most 16 bytes of the reserve that all late libraries share."""
    segments = re.findall(r"^ +TLS +\S+ \S+ \S+ \S+ (0x[0-9a-f]+)", read_elf("-lW", library),
                          re.MULTILINE)
    assert all(int(size, 16) <= 16 for size in segments)


def test_t07_library_cannot_be_unloaded(library):
    assert "NODELETE" in read_elf("-dW", library)


def test_library_needs_only_libc(library):
    """No C++ runtime, no libgcc_s."""
    needed = set(re.findall(r"Shared library: \[(.*?)\]", read_elf("-dW", library)))
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def test_t08_deepbind_plugin_gives_blocks(harness, fixtures, each_library):
    """T08: what a plugin took from libc's heap may be freed through ours."""
    plugin = fixtures("plugin.c", "-shared")
    environment = harness.environment(LD_PRELOAD=str(each_library), PRIMALLOC_DEEPBIND="1")
    command = [fixtures("plugin_host.c"), plugin, "take"]
    assert harness.run(command, environment=environment).stdout == b"exchanged\n"


@pytest.mark.parametrize("variable", ["", "MALLOC_CHECK_=3", "PRIMALLOC_HARDENED=1"])
def test_t08_blocks_of_libc_go_back_to_libc(harness, fixtures, each_library, variable):
    """Of the heap by brk, of arenas, of mappings; libc has them again, nobody is told of them."""
    environment = harness.environment(LD_PRELOAD=str(each_library), PRIMALLOC_SHOW_ERRORS="1",
                                      **dict([variable.split("=")] if variable else []))
    program = fixtures("libc_heap.c", "-w", "-fno-builtin", "-pthread")
    result = harness.run([program], environment=environment)
    assert (result.stdout, result.stderr) == (b"returned\n", b"")


def test_t08_blocks_of_before_the_library_was_loaded(harness, fixtures, each_library):
    program = fixtures("libc_heap.c", "-w", "-fno-builtin", "-pthread")
    environment = harness.environment(PRIMALLOC_SHOW_ERRORS="1")
    result = harness.run([program, each_library], environment=environment)
    assert (result.stdout, result.stderr) == (b"returned\n", b"")


def test_t08_blocks_of_libc_where_the_loader_was_told_to_start(harness, fixtures, each_library):
    """Its heap lies elsewhere then."""
    program = fixtures("libc_heap.c", "-w", "-fno-builtin", "-pthread")
    loader = re.search(r"interpreter: (\S+)\]", harness.run(["readelf", "-lW", program])
                       .stdout.decode())[1]
    environment = harness.environment(PRIMALLOC_SHOW_ERRORS="1")
    for command in ([loader, program, each_library],
                    [loader, "--preload", each_library, program]):
        result = harness.run(command, environment=environment)
        assert (result.stdout, result.stderr) == (b"returned\n", b"")


@pytest.mark.parametrize("order", ["before", "after"])
def test_t08_deepbind_plugin_takes_blocks(harness, fixtures, each_library, order):
    """T08: of its host and of strdup; a library that wraps dlsym is in the way. The plugin is found
    by the rpath of its host."""
    plugin = fixtures("plugin.c", "-shared")
    host = fixtures("plugin_host.c", "-Wl,-rpath,$ORIGIN", output="plugin_host_rpath")
    pair = [str(fixtures("wrap_dlsym.c", "-shared")), str(each_library)]
    for preload in (str(each_library), preload_order(pair, order)):
        environment = harness.environment(LD_PRELOAD=preload)
        for direction in ("give", "keep"):
            result = harness.run([host, plugin.name, direction], environment=environment)
            assert result.stdout == b"exchanged\n"


def test_without_a_dlopen_behind_ours(harness, fixtures, each_library):
    """Its caller gets NULL, and the reason by dlerror."""
    plugin, host = fixtures("plugin.c", "-shared"), fixtures("plugin_host.c")
    wrapper = fixtures("wrap_dlsym.c", "-shared", '-DHIDDEN="dlopen"', output="hide_dlopen.so")
    environment = harness.environment(LD_PRELOAD=f"{each_library}:{wrapper}")
    result = harness.run([host, plugin, "give"], environment=environment, check=False)
    assert result.returncode == 2
    assert b"undefined symbol: dlopen_is_nowhere" in result.stderr


@pytest.mark.parametrize("order", ["before", "after"])
def test_t15_beside_another_allocator(harness, fixtures, library, order):
    """Two allocators preloaded: the first one serves. (A program that calls a function which the
    first one lacks does mix them, but for reallocarray, which calls its realloc.)"""
    other = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    if not os.path.exists(other):
        pytest.skip("libjemalloc2 is not installed (tests/apt-packages.txt)")
    pair = [other, str(library)]
    environment = harness.environment(LD_PRELOAD=preload_order(pair, order))
    assert harness.run([fixtures("exercise.c")], environment=environment).stdout == EXERCISED
    if order == "after":
        harness.run(["bash", "-c", "x=$(echo 1); echo $x | sort"], environment=environment)


@pytest.mark.parametrize("order", ["before", "after"])
def test_t15_address_sanitizer(harness, fixtures, library, order):
    """T15: a sanitized program, whose runtime has an allocator of its own."""
    program = fixtures("exercise.c", "-fsanitize=address", output="exercise_sanitized")
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True,
                             check=True).stdout.strip()
    # The runtime insists on being first; behind it, primalloc is only loaded, not used.
    pair = [os.path.realpath(runtime), str(library)]
    preload = ":".join(pair) if order == "before" else str(library)
    options = "verify_asan_link_order=0:detect_leaks=0"
    environment = harness.environment(LD_PRELOAD=preload, ASAN_OPTIONS=options)
    assert harness.run([program], environment=environment).stdout == EXERCISED


def test_t15_valgrind(harness, fixtures, library):
    """Under valgrind, with its replacement of malloc and without; a trim asks about mappings."""
    require("valgrind")
    program = fixtures("exercise.c")
    trimming = [fixtures("blocks.c"), "4", "2", "dense", "free"]
    for options in ([], ["--soname-synonyms=somalloc=nouserintercepts"]):
        command = ["valgrind", "-q", "--tool=none" if not options else "--tool=memcheck",
                   "--error-exitcode=9", *options]
        for words, expected in ([program], EXERCISED), (trimming, b"again"):
            result = harness.run([*command, *words], environment=harness.preloaded(), timeout=300)
            assert expected in result.stdout


def test_t15_memcheck_sees_the_operators(harness, fixtures):
    """It takes the place of no weak function: ours are strong."""
    require("valgrind")
    command = ["valgrind", "--leak-check=full", fixtures("faults_of_new.cc", "-g", "-O0")]
    told = harness.run(command, environment=harness.preloaded(), timeout=300).stderr.decode()
    for fault in "Mismatched free() / delete", "Invalid write of size 1", "operator new[]":
        assert fault in told, told
    assert "definitely lost: 400 bytes in 1 blocks" in told


def test_t14_static_program_runs(harness, fixtures, library):
    """T14: a static program ignores the preload and runs as ever."""
    program = fixtures("report_preload.c", "-static", output="static_report")
    assert harness.run_preloaded([program]).stdout == b"works\n"


def test_children_of_children(harness, library):
    script = "for i in 1 2 3; do (sh -c 'env true' | cat); done; echo $(echo $(echo deep))"
    assert harness.run_preloaded(["bash", "-c", script]).stdout == b"deep\n"


def test_t13_only_exe(harness, fixtures, library):
    """The option that keeps the preload from the children."""
    program = fixtures("report_preload.c")
    result = harness.run_preloaded([program], changes={"PRIMALLOC_ONLY_EXE": "1"})
    assert result.stdout == b"preloaded\nworks\n"
    result = harness.run_preloaded(["env", program], changes={"PRIMALLOC_ONLY_EXE": "1"})
    assert b"preloaded" not in result.stdout


def test_only_exe_leaves_other_libraries(harness, fixtures, library):
    """A directory may have our name."""
    other = harness.directory / "libprimalloc-plugins" / "libother.so"
    other.parent.mkdir()
    shutil.copy(fixtures("plugin.c", "-shared"), other)
    result = harness.run(["sh", "-c", "echo $LD_PRELOAD"], environment=harness.environment(
        LD_PRELOAD=f"{other}:{library}", PRIMALLOC_ONLY_EXE="1"))
    assert result.stdout == f"{other}\n".encode()


def test_keys_of_another_namespace(harness, fixtures):
    """Its libc counts keys from 0 as well, and a thread has one place for both."""
    plugin = fixtures("two_namespaces.c", "-shared", "-DLIBRARY", output="libkeys.so")
    program = fixtures("two_namespaces.c")
    assert harness.run_preloaded([program, str(plugin)]).stdout == b"ended\n"


@pytest.mark.parametrize("call", ["trim", "free"])
def test_the_first_call_allocates_nothing(harness, fixtures, each_library, call):
    program = fixtures("first_call.c")
    harness.run([program, call], environment=harness.environment(LD_PRELOAD=str(each_library)))
