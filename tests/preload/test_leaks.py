"""The leak checker against LeakSanitizer and memcheck on small programs (tests/leaks), and what it
takes from its user: strictness, suppressions, blocks to be ignored, the report's file, the exit
status."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

import pprof
from harness import require

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "leaks"
ROOT = pathlib.Path(__file__).resolve().parents[2]
LEAKED = 23
MEMCHECK_KINDS = re.compile(r"(definitely|indirectly|possibly) lost: ([\d,]+) bytes in ([\d,]+) b")
# (bytes, blocks) that memcheck calls lost, and possibly lost, where it does not say what we say:
# docs/leaks.md tells why.
NOTHING, A_NODE, A_THREADS_OWN = (0, 0), (48, 1), (288, 1)
MEMCHECK_DIFFERS = {
    "inner_kept": (NOTHING, A_NODE),
    "only_in_mapping": (NOTHING, NOTHING),
    "on_thread_stack": (NOTHING, A_THREADS_OWN),
    "in_thread_local": (NOTHING, A_THREADS_OWN),
    "by_thread_key": (NOTHING, A_THREADS_OWN),
    "in_thread_register": (NOTHING, A_THREADS_OWN),
}


def sum_of(errors):
    """(bytes, blocks) that a report of ours says leaked."""
    found = re.search(r"(\d+) bytes? in (\d+) blocks? leaked", errors)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def sanitizer_sum_of(errors):
    found = re.search(r"SUMMARY: LeakSanitizer: (\d+) byte\(s\) leaked in (\d+) allocation", errors)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Each program plainly and with LeakSanitizer, and the plugin."""
    directory = tmp_path_factory.mktemp("leaks")
    common = ["-O1", "-g", "-fno-builtin", "-pthread"]
    for kind, options in (("plain", []), ("sanitized", ["-fsanitize=leak"])):
        for compiler, source in (("gcc", "programs.c"), ("g++", "containers.cc")):
            target = directory / f"{source.split('.')[0]}_{kind}"
            subprocess.run([compiler, *common, *options, SOURCES / source, "-o", target, "-ldl"],
                           check=True, timeout=120)
    subprocess.run(["gcc", *common, "-shared", "-fPIC", SOURCES / "plugin.c", "-o",
                    directory / "plugin.so"], check=True, timeout=60)
    return directory


@pytest.fixture
def check(harness, built):
    """Runs a case under the leak checker; returns its status and what it says."""

    def run(case, choice="normal", program="programs_plain", **changes):
        settings = {"PRIMALLOC_LEAK_CHECK": choice, "LEAKS_PLUGIN": str(built / "plugin.so")}
        result = harness.run_preloaded([built / program, *case.split()],
                                       changes={**settings, **changes}, check=False)
        return result.returncode, result.stderr.decode()

    return run


@pytest.mark.parametrize("program", ["programs", "containers"])
def test_verdicts_are_those_of_leak_sanitizer(harness, built, check, program):
    cases = harness.run([built / f"{program}_plain"]).stdout.decode().split()
    assert len(cases) >= 9
    differences, leaking = [], 0
    for case in cases:
        status, errors = check(case, program=f"{program}_plain")
        environment = harness.environment(LEAKS_PLUGIN=str(built / "plugin.so"))
        theirs = harness.run([built / f"{program}_sanitized", case], environment=environment,
                             check=False)
        expected = sanitizer_sum_of(theirs.stderr.decode())
        if case == "empty_lost":
            expected = (0, 1)  # it counts one byte for none
        leaking += expected[1] > 0
        if sum_of(errors) != expected or status != (LEAKED if expected[1] else 0):
            differences.append((case, status, sum_of(errors), expected))
    assert not differences and 3 <= leaking < len(cases)


@pytest.mark.parametrize("case", ["lost", "list_lost", "ring_lost", "copied_lost", "large_lost"])
def test_what_lies_on_the_stack_from_before_keeps_nothing(harness, built, check, case):
    """Nobody has overwritten what the calls left there that made the blocks."""
    for _ in range(3):  # LeakSanitizer missed it in one of some thousand runs, on a busy machine
        theirs = harness.run([built / "programs_sanitized", case, "as it is"], check=False)
        expected = sanitizer_sum_of(theirs.stderr.decode())
        if expected[1]:
            break
    assert expected[1] > 0, theirs.stderr.decode()
    assert sum_of(check(f"{case} as_it_is")[1]) == expected


def memcheck_sums_of(errors):
    """(bytes, blocks) that memcheck says are lost, directly or not, and possibly lost."""
    sums = {kind: (int(size.replace(",", "")), int(blocks.replace(",", "")))
            for kind, size, blocks in MEMCHECK_KINDS.findall(errors)}
    direct, indirect = (sums.get(kind, NOTHING) for kind in ("definitely", "indirectly"))
    return (direct[0] + indirect[0], direct[1] + indirect[1]), sums.get("possibly", NOTHING)


@pytest.mark.skipif(float(os.environ.get("PRIM_TEST_SCALE", "1")) <= 1,
                    reason="takes a minute: in make prove, or with PRIM_TEST_SCALE above 1")
@pytest.mark.parametrize("program", ["programs", "containers"])
def test_memchecks_verdicts_are_known(harness, built, check, program):
    require("valgrind")
    cases = harness.run([built / f"{program}_plain"]).stdout.decode().split()
    environment = harness.environment(LEAKS_PLUGIN=str(built / "plugin.so"))
    for case in cases:
        ours = sum_of(check(case, program=f"{program}_plain")[1])
        theirs = harness.run(["valgrind", "--leak-check=full", built / f"{program}_plain", case],
                             environment=environment, check=False).stderr.decode()
        assert "in use at exit" in theirs, theirs
        expected = MEMCHECK_DIFFERS.get(case, (ours, NOTHING))
        assert memcheck_sums_of(theirs) == expected, case


def test_verdicts_in_hardened_mode(harness, built, check):
    """Whose slabs begin anywhere, and whose free blocks are known elsewhere."""
    cases = harness.run([built / "programs_plain"]).stdout.decode().split()
    for case in cases:
        status, errors = check(case)
        hardened_status, hardened_errors = check(case, PRIMALLOC_HARDENED="1")
        assert (case, status, sum_of(errors)) == (case, hardened_status, sum_of(hardened_errors))


@pytest.mark.parametrize("choice", ["normal", "strict"])
def test_verdicts_with_checks(harness, built, check, choice):
    """Which keep freed blocks, and put something around the others."""
    cases = harness.run([built / "programs_plain"]).stdout.decode().split()
    for case in cases:
        status, errors = check(case, choice)
        checked_status, checked_errors = check(case, choice, PRIMALLOC_CHECK="full")
        assert (case, status, sum_of(errors)) == (case, checked_status, sum_of(checked_errors))


def test_the_report_names_the_place(check):
    status, errors = check("list_lost")
    assert status == LEAKED
    assert re.search(r"^48 bytes in 1 block, which hold 192 bytes in 4 blocks more, allocated at\n"
                     r"    0x[0-9a-f]+ make \(.*programs_plain\+0x[0-9a-f]+\)\n"
                     r"    0x[0-9a-f]+ make_list ", errors, re.MULTILINE)


def test_a_static_program_without_tables_names_the_caller(harness, library, tmp_path):
    program = tmp_path / "static"
    subprocess.run(["gcc", "-O1", "-w", "-fno-builtin", "-static", SOURCES / "programs.c", "-o",
                    program, library.parent / "libprimalloc.a", "-pthread"], check=True,
                   timeout=120)
    environment = harness.environment(PRIMALLOC_LEAK_CHECK="normal")
    result = harness.run([program, "lost"], environment=environment, check=False)
    assert result.returncode == LEAKED
    assert re.search(rb"allocated at\n    0x[0-9a-f]+ make \(.*static\+0x[0-9a-f]+\)\n",
                     result.stderr)


def test_what_a_static_program_keeps_for_ended_threads_is_no_leak(harness, fixtures, library):
    archive = library.parent / "libprimalloc.a"
    program = fixtures("threads_joined.c", "-static", "-Wl,-u,malloc", str(archive),
                       output="threads_joined_static")
    environment = harness.environment(PRIMALLOC_LEAK_CHECK="normal")
    result = harness.run([program], environment=environment, check=False)
    assert result.returncode == 0 and b"no leaks" in result.stderr


def test_a_library_that_holds_the_archive(harness, fixtures, library):
    """Its variables lead to blocks, and its functions are in stacks: only the archive is ours."""
    archive = library.parent / "libprimalloc.a"
    holder = fixtures("part_of_library.c", "-shared", "-DLIBRARY", str(archive))
    program = fixtures("part_of_library.c", str(holder), output="part_of_library")
    environment = harness.environment(PRIMALLOC_LEAK_CHECK="normal")
    result = harness.run([program], environment=environment, check=False)
    errors = result.stderr.decode()
    assert result.returncode == LEAKED and sum_of(errors) == (5 * 79, 5), errors
    places = re.findall(r"allocated at\n *0x\w+ (\w+) \(.*part_of_library[.]so\+", errors)
    assert places and set(places) == {"library_lose"}, errors


def test_what_is_asked_for_can_be_less_or_more(check):
    assert check("inner_kept", "normal")[0] == 0
    status, errors = check("inner_kept", "strict")
    assert status == LEAKED and "to which only inner pointers lead" in errors
    assert check("kept_in_global", "strict")[0] == 0
    assert check("lost", "off") == (0, "")
    assert check("lost", "minimal")[0] == LEAKED


def test_a_strict_check_ends(check):
    """Blocks that lead to each other, and with inner pointers to themselves."""
    expected = check("list_lost", program="containers_plain")
    status, errors = check("list_lost", "strict", program="containers_plain")
    assert (status, sum_of(errors)) == (LEAKED, sum_of(expected[1]))
    assert sum_of(errors)[1] == 6 and "inner" not in errors


def test_the_exit_status_is_the_users(check):
    assert check("lost", PRIMALLOC_LEAK_EXIT="7")[0] == 7
    status, errors = check("lost", PRIMALLOC_LEAK_EXIT="0")
    assert status == 0 and sum_of(errors) == (48, 1)


def test_wrong_settings_of_a_profile_do_not_end_the_check(check):
    status, errors = check("lost", PRIMALLOC_PROFILE="rate=64K")
    assert status == LEAKED
    assert " wrong from here: rate=64K\n" in errors


def test_output_is_not_lost(harness, built):
    """The status changes while the process is ending, and buffers are still written."""
    settings = {"PRIMALLOC_LEAK_CHECK": "normal"}
    result = harness.run_preloaded([built / "programs_plain", "lost"], changes=settings,
                                   check=False)
    assert result.returncode == LEAKED
    listed = harness.run_preloaded([built / "programs_plain"], changes=settings)
    assert listed.stdout.decode().split()[0] == "kept_in_global"


def test_suppressions(harness, check):
    rules = harness.directory / "suppressed"
    for text, status in (("leak:make_li*t\n", 0), ("# nothing\nleak:^make$\n", 0),
                         ("leak:programs_plain\n", 0), ("leak:other\n", LEAKED),
                         ("leak:\n#leak:make\n", LEAKED)):
        rules.write_text(text)
        assert check("list_lost", PRIMALLOC_LEAK_SUPPRESS=str(rules))[0] == status, text
    for wrong in ("leak:", " leak:make", "race:x\r", "end"):
        rules.write_text(f"# one\n\nleak:other\r\n \t\n  # two\n\r\n{wrong}\nwrong\n")
        errors = check("list_lost", PRIMALLOC_LEAK_SUPPRESS=str(rules))[1]
        assert errors.count("is no line") == 1 and errors.startswith(
            f'primalloc: leak check: is no line "leak:PATTERN": {rules}:7\n'), errors
    path = harness.directory / "leaks.pb.gz"
    rules.write_text("leak:make\n")
    check("list_lost", PRIMALLOC_LEAK_SUPPRESS=str(rules), PRIMALLOC_LEAK_REPORT=str(path))
    assert pprof.Profile(path).facts["ignored"] == "5 240"
    status, errors = check("lost", PRIMALLOC_LEAK_SUPPRESS="/nonexistent")
    assert status == LEAKED
    assert "primalloc: leak check: cannot read /nonexistent\n" in errors


def test_a_suppression_file_has_its_bound(harness, check):
    """It is not cut, which would leave a pattern that matches more than was meant."""
    rules = harness.directory / "suppressed"
    filler = "#" + "x" * ((256 << 10) - len("#\nleak:make") - 1) + "\n"
    rules.write_text(filler + "leak:make")
    assert check("list_lost", PRIMALLOC_LEAK_SUPPRESS=str(rules))[0] == 0
    rules.write_text(filler + "leak:make!")
    status, errors = check("list_lost", PRIMALLOC_LEAK_SUPPRESS=str(rules))
    assert status == LEAKED
    assert f"primalloc: leak check: not below 256 KiB: {rules}\n" in errors


def test_names_are_whole(harness, fixtures):
    program = fixtures("leak_roots.c", output="program_of_names")
    settings = {"PRIMALLOC_LEAK_CHECK": "normal"}
    command = [program, "lost_by_a_long_name"]
    result = harness.run_preloaded(command, changes=settings, check=False)
    assert re.search(rb" a_name_\w{140,}_which_is_here \(", result.stderr), result.stderr
    (harness.directory / "known").write_text("leak:_which_is_here$\n")
    settings["PRIMALLOC_LEAK_SUPPRESS"] = str(harness.directory / "known")
    harness.run_preloaded(command, changes=settings)


def test_the_reports_file(harness, check):
    path = harness.directory / "leaks.pb.gz"
    errors = check("list_lost", PRIMALLOC_LEAK_REPORT=str(path))[1]
    assert sum_of(errors) == (240, 5) and "allocated at" not in errors
    report = pprof.Profile(path)
    assert report.types == pprof.LEAK_VIEWS and report.shown == "leaked_space"
    assert report.facts["format"] == "primalloc-leaks 1" and report.period == 1
    totals = {view: report.total(view) for view, _ in pprof.LEAK_VIEWS}
    assert totals == {"leaked_objects": 1, "leaked_space": 48, "held_objects": 4,
                      "held_space": 192, "indirect_objects": 4, "indirect_space": 192}
    assert all(sample.labels["kind"] == "lost" for sample in report.samples)
    assert re.fullmatch(r"\d+ \d+", report.facts["reachable"])


def test_frames_name_their_library(harness, fixtures, built):
    """One by a relative path; and many by paths so long that not all are kept, of which the last
    ones are not taken for the program."""
    shutil.copy(built / "plugin.so", harness.directory / "near.so")
    folder = harness.directory
    while len(str(folder)) < 3700:
        folder = folder / ("f" * 200)
    folder.mkdir(parents=True)
    far = [shutil.copy(built / "plugin.so", folder / f"{number}.so") for number in range(20)]
    program = fixtures("losing_plugins.c")
    result = harness.run_preloaded([program, "./near.so", *far], directory=harness.directory,
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"}, check=False)
    errors = result.stderr.decode()
    assert result.returncode == LEAKED and sum_of(errors) == (21 * 79, 21), errors
    frames = re.findall(r"allocated at\n *0x\w+ (?:\w+ )?\((.*)\+0x\w+\)\n", errors)
    assert len(frames) == 21 and str(program) not in frames, frames
    assert f"{harness.directory}/./near.so" in frames and "" in frames, frames


def test_names_in_a_library_whose_addresses_do_not_begin_at_0(harness, fixtures, built):
    library = harness.directory / "high.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-Wl,-Ttext-segment=0x400000",
                    SOURCES / "plugin.c", "-o", library], check=True, timeout=60)
    settings = {"PRIMALLOC_LEAK_CHECK": "normal"}
    command = [fixtures("losing_plugins.c"), library, built / "plugin.so"]
    errors = harness.run_preloaded(command, changes=settings, check=False).stderr.decode()
    assert re.search(r"allocated at\n *0x\w+ plugin_lose \(\S*/high\.so\+", errors), errors
    (harness.directory / "known").write_text("leak:plugin_lose$\n")
    settings["PRIMALLOC_LEAK_SUPPRESS"] = str(harness.directory / "known")
    harness.run_preloaded(command, changes=settings)


def reports(directory, pattern):
    """The reports that match, each as (process, leaked bytes with what they hold)."""
    found = [pprof.Profile(path) for path in directory.glob(pattern)]
    return sorted((int(report.facts["program"].split()[0]),
                   report.total("leaked_space") + report.total("held_space")) for report in found)


@pytest.mark.parametrize("name", ["leaks.pb.gz", "%p.leaks.pb.gz"])
def test_each_process_keeps_its_report(harness, check, name):
    """A program that was started leaks, and then the one that started it."""
    check("with_another", PRIMALLOC_LEAK_REPORT=str(harness.directory / name))
    found = reports(harness.directory, "*leaks*.pb.gz")
    assert sorted(size for _, size in found) == [48, 240], found
    assert len({process for process, _ in found}) == 2


def test_a_child_of_a_confined_process_is_not_checked(harness, fixtures):
    """Its parent sees that it ends as ever."""
    result = harness.run_preloaded([fixtures("confined_child.c")],
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"}, check=False)
    assert result.returncode == LEAKED
    assert sum_of(result.stderr.decode())[0] == 1_500_000
    assert result.stderr.count(b"leak check of process") == 1


def test_a_confined_process_is_looked_through_as_any(harness, fixtures):
    rules = harness.directory / "suppressed"
    rules.write_text("leak:confined_child\n")
    harness.run_preloaded([fixtures("confined_child.c")], changes={
        "PRIMALLOC_LEAK_CHECK": "normal", "PRIMALLOC_LEAK_SUPPRESS": str(rules)})


def test_a_profile_of_the_programs_own_takes_nothing_away(harness, fixtures):
    """Whether it starts one or stops it, blocks that it frees are no leaks, and others are."""
    command = [fixtures("leak_and_profile.c", "-ldl")]
    settings = {"PRIMALLOC_LEAK_CHECK": "normal"}
    harness.run_preloaded(command, changes=settings)
    result = harness.run_preloaded([*command, "loses"], changes=settings, check=False)
    assert result.returncode == LEAKED and sum_of(result.stderr.decode())[1] == 100


def test_programs_that_ask_for_themselves(harness, fixtures):
    program = fixtures("leak_calls.c")
    settings = {"PRIMALLOC_LEAK_CHECK": "normal"}
    result = harness.run_preloaded([program], changes=settings, check=False)
    assert result.stdout.decode().split() == ["0", "1", "1", "1", "1", "2"]
    assert result.returncode == LEAKED
    result = harness.run_preloaded([program])
    assert result.stdout.decode().split() == ["-1"] * 6


def test_what_a_thread_ignores_ends_with_it(harness, fixtures, library):
    """And is not in the child of another thread's fork."""
    program = fixtures("leak_scopes.c", f"-I{ROOT}/include", str(library))
    result = harness.run_preloaded([program], changes={"PRIMALLOC_LEAK_CHECK": "normal"},
                                   check=False)
    assert result.stdout.split() == [b"10", b"10"], result.stderr.decode()


@pytest.mark.parametrize("case", [
    "behind_older_ones", "in_a_heap_of_its_own", "inside_a_heap_of_its_own", "behind_the_size",
    "below_many_mappings",
    "far_from_the_thread_pointer", "below_a_handler", "outside_a_coroutine",
    "outside_a_threads_coroutine", "without_a_main_thread", "in_a_large_block_that_ends"])
def test_what_is_pointed_to_is_no_leak(harness, fixtures, case):
    library = fixtures("leak_roots.c", "-shared", "-DLIBRARY")
    program = fixtures("leak_roots.c", "-Wl,--no-as-needed", str(library),
                       f"-Wl,-rpath={library.parent}")
    result = harness.run_preloaded([program, case], changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert b": no leaks\n" in result.stderr and b"could not be" not in result.stderr


def test_many_threads_are_stopped(harness, fixtures):
    result = harness.run_preloaded([fixtures("leak_threads.c"), 100],
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert result.stdout == b"0\n0\n0\n" and b"could not be stopped" not in result.stderr


def test_threads_that_end_meanwhile_hide_no_others(harness, fixtures):
    result = harness.run_preloaded([fixtures("leak_threads.c"), 5, "short"],
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert result.stdout == b"0\n" * 300 and b"could not be stopped" not in result.stderr


def test_a_traced_program_says_what_it_could_not_see(harness, built):
    require("strace")
    command = ["strace", "-f", "-o", "/dev/null", built / "programs_plain", "on_thread_stack"]
    result = harness.run_preloaded(command, changes={"PRIMALLOC_LEAK_CHECK": "normal"},
                                   check=False)
    assert b"could not be stopped" in result.stderr


def test_a_filter_that_kills_the_helper_does_not_stop_the_check(harness, fixtures):
    result = harness.run_preloaded([fixtures("leak_filter.c")], timeout=30,
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert b"other threads could not be stopped" in result.stderr


def test_a_thread_that_does_not_stop_does_not_stop_the_check(harness, fixtures):
    pipe = harness.directory / "pipe"
    os.mkfifo(pipe)
    try:
        result = harness.run_preloaded([fixtures("leak_spawn.c"), pipe], timeout=10, check=False,
                                       changes={"PRIMALLOC_LEAK_CHECK": "normal"})
        assert b"other threads could not be stopped" in result.stderr
    finally:
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # the child goes on


def number_of(call):
    result = subprocess.run(["gcc", "-E", "-P", "-include", "sys/syscall.h", "-"], check=True,
                            input=f"SYS_{call}", capture_output=True, text=True, timeout=60)
    return result.stdout.split()[-1]


@pytest.mark.parametrize("call", ["gettid", "wait4", "getdents64", "lseek", "ptrace"])
def test_a_filter_that_refuses_a_call_does_not_stop_the_check(harness, fixtures, call):
    result = harness.run_preloaded([fixtures("leak_filter.c"), number_of(call)], timeout=30,
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert b"other threads could not be stopped" in result.stderr


def test_a_thread_that_is_alone_misses_no_others(harness, fixtures):
    command = [fixtures("leak_filter.c"), number_of("getdents64"), "alone"]
    result = harness.run_preloaded(command, timeout=30,
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert b"no leaks" in result.stderr and b"could not be" not in result.stderr


@pytest.mark.parametrize("call", ["sync", "faccessat"])
def test_the_stack_of_main_is_looked_at_under_a_filter(harness, fixtures, call):
    """The latter tells whether main has ended already."""
    command = [fixtures("leak_filter.c"), number_of(call), "in a thread"]
    result = harness.run_preloaded(command, timeout=30,
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert b"no leaks" in result.stderr, result.stderr


def test_a_check_without_memory_is_told_of(harness, fixtures):
    result = harness.run_preloaded([fixtures("no_memory.c")],
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert result.stderr == b"primalloc: leak check: no memory\n"


def test_a_check_that_knows_no_stacks_gives_no_verdict(harness, fixtures):
    command = [fixtures("no_descriptors.c")]
    settings = {"PRIMALLOC_LEAK_CHECK": "normal"}
    result = harness.run_preloaded(command, changes=settings)
    assert result.stderr == b"primalloc: leak check: no /proc/self/maps\n"


def test_real_programs_end_as_always(harness):
    for command in (["/usr/bin/python3", "-c", "print(1)"], ["ls", "/"], ["sh", "-c", "echo 1"]):
        result = harness.run_preloaded(command, changes={"PRIMALLOC_LEAK_CHECK": "normal",
                                                         "PRIMALLOC_LEAK_EXIT": "0"})
        assert result.stdout


def test_handlers_run_in_no_other_process(harness, fixtures):
    """Who stops the threads shares all memory, and would have been taken for the program."""
    result = harness.run_preloaded([fixtures("signalled_leak_check.c", f"-I{ROOT / 'include'}")],
                                   changes={"PRIMALLOC_LEAK_CHECK": "normal"})
    assert result.stdout == b"some 0\n"
