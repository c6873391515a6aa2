"""What an idle program left behind goes back: by a thread that comes when it is needed and goes
when it is done (T42)."""

import re

import pytest

ALLOWANCE_KIB = 8 * 1024
WORD = re.compile(r"(\w+)=(-?\d+)")


def lines_of(result):
    """The lines "name: key=number ..." as pairs of name and numbers, in their order."""
    lines = []
    for line in result.stdout.decode().splitlines():
        name, _, words = line.partition(": ")
        lines.append((name, {key: int(value) for key, value in WORD.findall(words)}))
    return lines


def named(lines, name):
    found = [values for line, values in lines if line == name]
    assert found, f"no line {name!r} in {lines}"
    return found


@pytest.fixture
def idle(harness, fixtures, each_library):
    """Runs a mode of idle.c and returns its lines."""
    def run(*words, **changes):
        environment = harness.environment(LD_PRELOAD=str(each_library), **changes)
        return lines_of(harness.run([fixtures("idle.c"), *words], environment=environment))
    return run


def check_returned(lines, live_kib=0):
    """Everything free is gone, and so is the thread; the sleeper's own switches remain."""
    for values in named(lines, "idle"):
        assert values["resident"] <= live_kib * 1.15 + ALLOWANCE_KIB
        assert (values["threads"], values["ours"]) == (1, 0)
    for values in named(lines, "still"):
        assert values["switches"] <= 2


@pytest.mark.parametrize("mode", ["large", "small", "shrink"])
def test_idle_process_returns_its_memory(idle, mode):
    lines = idle(mode, "256")
    assert named(lines, "freed")[0]["ours"] == 1
    check_returned(lines)


def test_no_thread_for_little(idle):
    lines = idle("large", "24")
    assert named(lines, "freed")[0]["ours"] == 0
    assert named(lines, "idle")[0]["ours"] == 0


def test_less_is_enough_where_there_were_threads(idle):
    lines = idle("threaded", "24")
    assert named(lines, "freed")[0]["ours"] == 1
    check_returned(lines)
    lines = idle("threaded", "6")
    assert named(lines, "freed")[0]["ours"] == 0


def test_less_is_enough_where_a_program_mostly_waits(idle):
    lines = idle("waiting", "24")
    assert named(lines, "freed")[0]["ours"] == 1
    check_returned(lines)
    lines = idle("waiting", "6")
    assert named(lines, "freed")[0]["ours"] == 0


def test_who_computes_is_not_taken_for_waiting(idle):
    """A quarter of a processor is the bound: who does not get that much looks like waiting."""
    lines = idle("computing", "24")
    if min(request["percent"] for request in named(lines, "request")) < 35:
        pytest.skip("this machine is too busy to compute on")
    assert named(lines, "freed")[0]["ours"] == 0


@pytest.mark.parametrize("change", ["PRIMALLOC_MAINTENANCE", "PRIMALLOC_PURGE"])
def test_switched_off(idle, change):
    lines = idle("large", "256", **{change: "0"})
    for when in ("freed", "idle"):
        assert named(lines, when)[0]["threads"] == 1
        assert named(lines, when)[0]["resident"] > 200 * 1024


def test_t42_no_thread_before_main(idle):
    """A constructor that frees much and sleeps finds none; main's first occasion starts it."""
    lines = idle("large", "64", FREE_EARLY="1")
    assert named(lines, "early")[0]["threads"] == 1
    assert named(lines, "freed")[0]["ours"] == 1
    check_returned(lines)


def test_what_is_used_again_never_faults(idle):
    """64 MiB taken, touched and freed every 400 ms: shorter than the delay, however the turns fall
    on the thread's windows. A gap that the machine made longer than that proves nothing. What went
    back would fault 32 huge pages at least; code that runs for the first time faults a page."""
    lines = idle("turns", "64")
    judged = [turn for turn in named(lines, "turn")[2:] if turn["gap"] < 490]
    if not judged:
        pytest.skip("this machine does not sleep 400 ms in less than 490")
    assert sum(turn["faults"] for turn in judged) < 16


def test_t42_fork_child_has_a_thread_of_its_own(idle):
    lines = idle("fork", "128")
    assert named(lines, "parent")[0]["ours"] == 1
    assert named(lines, "born")[0]["threads"] == 1
    freed = named(lines, "freed")
    assert len(freed) == 2 and freed[0]["ours"] == 1
    check_returned(lines)


def test_malloc_trim_tells_the_truth(idle):
    lines = idle("trim", "64", PRIMALLOC_MAINTENANCE="0")
    answers = {key: value for values in named(lines, "trim") for key, value in values.items()}
    assert answers == {"nothing": 0, "kept_some": 1, "kept_none": 1, "again": 0}
    kept = named(lines, "half")[0]["resident"]
    trimmed = named(lines, "trimmed")[0]["resident"]
    assert trimmed <= ALLOWANCE_KIB
    assert abs(kept - trimmed - 32 * 1024) < 2048


def test_main_has_no_caller_of_ours(harness, fixtures, each_library):
    """Backtraces look as they do without us."""
    command = [fixtures("idle.c"), "frames"]
    environment = harness.environment(LD_PRELOAD=str(each_library))
    assert lines_of(harness.run(command, environment=environment)) == lines_of(harness.run(command))


@pytest.mark.parametrize("mode", ["threads", "legacies", "forks", "libraries"])
def test_storms(harness, fixtures, each_library, mode):
    """Windows of 20 ms: the thread comes and goes all the time, and nobody waits for ever. Every
    call is counted, so that every one of libc's takes the slow door."""
    library = fixtures("thread_local.c", "-shared", "-DSIZE=5000", output="storage.so")
    environment = harness.environment(LD_PRELOAD=str(each_library), PRIMALLOC_PURGE_DELAY="20",
                                      PRIMALLOC_STATS="full")
    command = [fixtures("storm.c"), mode, library]
    result = harness.run(command, environment=environment, timeout=100)
    assert result.stdout.endswith(b"done\n")


def test_t40_vfork_child_starts_nothing(harness, fixtures, each_library):
    """T40: the child shares our memory, but not our threads."""
    environment = harness.environment(LD_PRELOAD=str(each_library))
    lines = lines_of(harness.run([fixtures("storm.c"), "vfork"], environment=environment))
    assert named(lines, "child")[0] == {"status": 0, "threads": 1}
    assert named(lines, "parent")[0]["threads"] == 2


def test_process_ends_with_its_own_threads(harness, fixtures, each_library):
    """The thread is in the middle of a window of an hour when the last other one ends."""
    environment = harness.environment(LD_PRELOAD=str(each_library), PRIMALLOC_PURGE_DELAY="3600s")
    command = [fixtures("storm.c"), "exit"]
    result = harness.run(command, environment=environment, timeout=30)
    assert result.stdout == b"done\n"
