"""How a benchmark run goes on, fails, is interrupted or is refused; and the tables of rows."""

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from known_run import BENCH, PASSES, USUAL, raw_run, sample


def continue_run(folder, *more):
    return subprocess.run([sys.executable, BENCH / "run.py", "--continue", folder, *more],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=300)


def test_a_run_goes_on_where_it_ended():
    raw = raw_run({}, leave_early=["thrifty"])
    raw["failures"] = [{"row": "loop", "allocator": "fast", "reason": "timeout"}]
    raw["skipped"] = {"gone": "no program"}
    raw["samples"] = [one for one in raw["samples"]
                      if (one["row"], one["allocator"]) != ("loop", "fast")]
    restored = subprocess.run(
        [sys.executable, "-c", "import json, sys; sys.path.insert(0, sys.argv[1])\n"
         "from harness import begun\nfrom harness.campaign import Campaign\n"
         "campaign = Campaign([], [], 1, None, None)\n"
         "begun.restore(campaign, json.load(sys.stdin))\n"
         "print(campaign.passes, len(campaign.samples), sorted(campaign.far_behind),"
         " campaign.failures, campaign.skipped)", BENCH], input=json.dumps(raw), text=True,
        stdout=subprocess.PIPE, check=True, timeout=60).stdout
    left_out = [("loop", "thrifty"), ("program", "thrifty"), ("threads-2", "thrifty")]
    assert restored.strip() == (f"{PASSES} {len(raw['samples'])} {left_out} "
                                f"{ {('loop', 'fast'): 'timeout'} } { {'gone': 'no program'} }")


def test_who_is_far_behind_is_run_no_more_and_the_thriftiest_may_take_longer():
    """All memory is compared with the thriftiest: one pass of it says too little."""
    figures = {"fast": (1.0, 3000), "close": (1.4, 4000), "slow": (1.6, 3000),
               "thrifty": (2.9, 1000), "primalloc": (4.0, 500)}
    hopeless = {**figures, "close": (9.9, 4000), "slow": (10.1, 3000), "thrifty": (10.1, 1000)}
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from types import SimpleNamespace\n"
        "from harness.allocators import Allocator\nfrom harness.campaign import Campaign\n"
        "def figures_of(number):\n"
        "    campaign.samples += [SimpleNamespace(row='loop', allocator=name, score_s=s,\n"
        "                                         peak_rss_kib=kib)\n"
        "                         for name, (s, kib) in passes[number - 1].items()]\n"
        "for passes in json.loads(sys.argv[2]):\n"
        "    observer = SimpleNamespace(planned=lambda *_: None)\n"
        "    ways = [Allocator(name, None, '1', '-') for name in passes[0]]\n"
        "    campaign = Campaign([], ways, 1, None, observer)\n"
        "    campaign.run_pass = figures_of\n"
        "    campaign.run_first_passes()\n"
        "    print(sorted(name for _, name in campaign.far_behind))\n")
    cases = [[figures, figures], [hopeless, {**figures, "thrifty": (3.1, 1000)}]]
    told = subprocess.run([sys.executable, "-c", program, BENCH, json.dumps(cases)],
                          stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    assert told.splitlines() == ["['slow']", "['slow', 'thrifty']"]


def campaign_of(tmp_path, rows, allocators, minutes=(0.001,)):
    """What a campaign of shell scripts keeps: rows are {name: (score, script)}, allocators names of
    a setting NAME=1 that the scripts see. It goes on after each of the minutes but the last."""
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
        "from harness.allocators import Allocator\nfrom harness.campaign import Campaign\n"
        "from harness.environment import BenchError\nfrom harness.rows import Row\n"
        "from harness.terminal import Reporter\n"
        "rows = [Row(name, 'small', ('sh', '-c', script), (), (), score, 1, 1.0, True, 'A row.')\n"
        "        for name, (score, script) in json.loads(sys.argv[3]).items()]\n"
        "ways = [Allocator(name, None, '1', '-', {name: '1'}) for name in sys.argv[5:]]\n"
        "with Reporter(len(rows) * len(ways)) as reporter:\n"
        "    campaign = Campaign(rows, ways, 1, Path(sys.argv[2]), reporter)\n"
        "    for minutes in json.loads(sys.argv[4]):\n"
        "        try: campaign.run(minutes, None)\n"
        "        except BenchError as error: print(error)\n"
        "print('\\n' + json.dumps(campaign.raw({})))\n")
    answer = subprocess.run(
        [sys.executable, "-c", program, BENCH, tmp_path, json.dumps(rows), json.dumps(minutes),
         *allocators],
        stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    return answer, json.loads(answer.splitlines()[-1])


def test_a_run_that_goes_on_says_how_many_passes_there_are(tmp_path):
    """And where there is time for none, that it is so: nothing was drawn but a later date."""
    answer, raw = campaign_of(tmp_path, {"loop": ("time", ":")}, ["usual"], (0.001, 1e-6, 0.02))
    assert "the time is not enough for two passes more" in answer
    assert raw["passes"] > 2
    assert f"{raw['passes']} passes in all; from now on without 0 of 1 pairs" in answer


def test_who_prints_no_score_fails_alone(tmp_path):
    """The hour's other trials are kept."""
    rate = r"rate:([0-9.]+) in a second"
    script = "[ $broken ] || echo $((${idle:-0} ? 0 : 5)) in a second"
    _, raw = campaign_of(tmp_path, {"speed": (rate, script), "mute": (rate, "echo nothing")},
                         ["usual", "broken", "idle"])
    reason = f"it printed no rate that matches {rate}"
    assert raw["skipped"] == {"mute": reason}
    assert sorted((one["allocator"], one["reason"]) for one in raw["failures"]) == [
        ("broken", reason), ("idle", reason)]
    assert {(one["allocator"], one["score_s"]) for one in raw["samples"]} == {("usual", 0.2)}


def test_what_a_failed_program_says_is_no_markup(tmp_path):
    answer, raw = campaign_of(
        tmp_path, {"loop": ("time", "[ ! $bad ] || { echo 'abort: [/lib/x.so] [red]'; exit 1; }")},
        ["good", "bad"])
    assert "loop under bad: exit status 1: abort: [/lib/x.so] [red]" in answer
    assert len(raw["samples"]) == raw["passes"]


def test_who_failed_once_is_told(tmp_path):
    script = "n=$(cat n || echo 0); echo $((n + 1)) > n; [ $n -ne 1 ] || exit 3"
    answer, raw = campaign_of(tmp_path, {"loop": ("time", script)}, ["usual"])
    assert raw["second_runs"] == [{"row": "loop", "allocator": "usual", "pass_number": 1,
                                   "reason": "exit status 3: no output"}]
    assert "loop under usual: exit status 3: no output; its second run counts" in answer
    assert (raw["failures"], len(raw["samples"])) == ([], raw["passes"])


def test_where_no_trial_is_possible_any_more_the_whole_passes_are_kept(tmp_path):
    """As on a full disk: here no report of the launcher can be written from pass 2 on."""
    script = "n=$(cat n || echo 0); echo $((n + 1)) > n; [ $n -lt 2 ] || mkdir launch-report"
    answer, raw = campaign_of(tmp_path, {"loop": ("time", script)}, ["usual"])
    told = " ".join(answer.split())
    assert "interrupted: " in told and "the 1 whole passes are reported" in told
    assert (raw["passes"], len(raw["samples"])) == (1, 1)


def test_a_run_in_which_all_fails_says_so(tmp_path):
    answer, raw = campaign_of(tmp_path, {"loop": ("time", "exit ${bad:-0}")}, ["bad"])
    assert "no trial of a whole pass succeeded, so there is nothing to report" in answer
    assert raw["failures"][0]["reason"] == "exit status 1: no output"


def test_a_row_of_large_memory_without_its_figure_does_not_lose_the_others():
    program = ("import sys; sys.path.insert(0, sys.argv[1]); import large\n"
               "from harness.goals import load_goal_rows\n"
               "rows = load_goal_rows(True)[:2]\n"
               "def run(measurement, *_):\n"
               "    if measurement.row is rows[1]: raise large.BenchError('no figure')\n"
               "large.Measurement.run = run\n"
               "print([one['name'] for one in large.measure_rows(rows, [], 1, 1)], rows[0].name)")
    answer = subprocess.run([sys.executable, "-c", program, BENCH], text=True, check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    kept, first = answer.stdout.split()
    assert kept == f"['{first}']"
    assert "interrupted: no figure; 1 of 2 rows are reported" in answer.stderr


def test_what_a_run_should_have_and_has_not_is_told():
    program = ("import sys; sys.path.insert(0, sys.argv[1]); import run\n"
               "from harness.allocators import Allocator\n"
               "for names in sys.argv[2:]:\n"
               "    print(*run.lacking([Allocator(one, None, '', '') for one in names.split()]))")
    told = subprocess.run(
        [sys.executable, "-c", program, BENCH, "glibc primalloc", "glibc jemalloc",
         "primalloc glibc jemalloc"],
        text=True, check=True, stdout=subprocess.PIPE, timeout=60).stdout.splitlines()
    assert told[0] == "glibc is the only peer; bench/peers/build builds more"
    assert told[1].endswith("libprimalloc.so is not built: measuring the peers alone")
    assert told[2] == ""


def test_an_interrupted_run_leaves_no_program_behind(tmp_path):
    program = ("import signal, sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
               "from harness.trial import run_trial\n"
               "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
               "words = ['sh', '-c', 'echo $$ > number; sleep 60; :']\n"
               "run_trial(words, [], Path(sys.argv[2]), 90)")
    run = subprocess.Popen([sys.executable, "-c", program, BENCH, tmp_path],
                           stderr=subprocess.DEVNULL)
    number = tmp_path / "number"
    deadline = time.monotonic() + 60
    while not (number.exists() and number.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGTERM)
    run.wait(timeout=60)
    assert not pathlib.Path(f"/proc/{number.read_text().strip()}").exists()


def test_interrupted_graphs_are_drawn(tmp_path):
    run = subprocess.Popen(
        [sys.executable, BENCH / "graphs.py", "--allocators", "glibc", "--threads", "1,2",
         "--sizes", "64,1500", "--minutes", "60", "--out", tmp_path],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    trials = tmp_path / "trials.csv"
    deadline = time.monotonic() + 300
    while not (trials.exists() and trials.read_text().count("\n") > 2):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    assert " trials are drawn" in run.communicate(timeout=60)[1]
    assert run.returncode == 0
    assert "sizes up to 1.465 KiB</title>" in (tmp_path / "graphs.html").read_text()


def test_only_the_same_run_goes_on(tmp_path):
    missing = continue_run(tmp_path)
    assert missing.returncode == 1
    assert f"error: {tmp_path} has no raw.json" in missing.stdout
    other = raw_run({})
    other["machine"] |= {"commit": "0123456789ab", "sources": "0"}
    (tmp_path / "raw.json").write_text(json.dumps(other))
    refused = continue_run(tmp_path)
    assert refused.returncode == 1
    assert "is of commit 0123456789ab, whose sources or rows are not those here" in refused.stdout
    assert json.loads((tmp_path / "raw.json").read_text()) == other
    chosen = continue_run(tmp_path, "--rows", "loop")
    assert chosen.returncode == 2
    assert "--continue goes on with the choice of its run: no --rows" in chosen.stdout


@pytest.mark.parametrize("text, complaint", [
    (None, "error: {tmp} has no raw.json"),
    ('{"samples": [', "error: {tmp}/raw.json can't be read: Expecting value"),
    ("[]", "error: {tmp}/raw.json is no run of bench/run.py"),
    ('{"samples": []}', "error: {tmp}/raw.json is no run of bench/run.py"),
    (json.dumps(raw_run({}) | {"samples": [sample("loop", "primalloc", 1, USUAL["primalloc"])]}),
     "error: no peer has run a row, so there is nothing to compare with"),
])
def test_what_cannot_be_reported_gets_one_line(text, complaint, tmp_path):
    if text:
        (tmp_path / "raw.json").write_text(text)
    commands = [["run.py", "--report"], ["publish.py", "nothing", "--from"]]
    for script, *words in commands[:1] if "no peer" in complaint else commands:
        answer = subprocess.run([sys.executable, BENCH / script, *words, tmp_path], text=True,
                                check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                timeout=300)
        assert answer.returncode == 1
        assert answer.stdout.startswith(complaint.replace("{tmp}", str(tmp_path)))
        assert "Traceback" not in answer.stdout


def test_curves_that_are_none_get_one_line(tmp_path):
    (tmp_path / "raw.json").write_text(json.dumps(raw_run({})))
    (tmp_path / "curves.json").write_text('{"growth": []}')
    answer = subprocess.run([sys.executable, BENCH / "run.py", "--report", tmp_path], text=True,
                            check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            timeout=300)
    assert answer.returncode == 1
    assert answer.stdout == f"error: {tmp_path}/curves.json was not written by bench/curves.py\n"


@pytest.mark.parametrize("words, status, complaint", [
    ("run.py --passes 0", 2, "argument --passes: '0' is not a whole number above 0"),
    ("run.py --minutes nan", 2, "argument --minutes: 'nan' is not a number above 0"),
    ("run.py --passes 2 --minutes 1", 2, "argument --minutes: not allowed with argument --passes"),
    ("run.py --report {tmp} --rows x", 2, "--report draws a run as it was: no --rows with it"),
    ("run.py --report {tmp} --out x", 2, "--report draws a run as it was: no --out with it"),
    ("run.py --quick --rows x", 2, "--rows takes its rows from all of them: no --quick with it"),
    ("run.py --out {tmp} --rows t-test1*,pair-smae", 1,
     "error: no row matches pair-smae; bench/rows.toml has them all"),
    ("run.py --out {tmp}/file --rows pair-same", 1, "error: nothing can be written to {tmp}/file"),
    ("curves.py --out {tmp}/file", 1, "error: nothing can be written to {tmp}/file"),
    ("graphs.py --out {tmp}/file", 1, "error: nothing can be written to {tmp}/file"),
    ("graphs.py --threads 2,0", 2, "argument --threads: '0' is not a whole number above 0"),
    ("instructions.py --sizes 8,x", 2, "argument --sizes: 'x' is not a whole number above 0"),
    ("floor.py --runs 0", 2, "argument --runs: '0' is not a whole number above 0"),
    ("heaps.py --passes 0", 2, "argument --passes: '0' is not a whole number above 0"),
    ("overhead.py --part 0 A=1", 2, "argument --part: '0' is not a whole number above 0"),
    ("overhead.py PRIMALOC_GUARDED=1", 1, "error: nothing that is measured here reads PRIMALOC_GU"),
    ("overhead.py PRIMALLOC_GUARDD=1", 1,
     "error: a setting is wrong: primalloc: unknown option 'GUARDD': did you mean 'guarded'?"),
    ("run.py --out {tmp} --rows pair-same --allocators glibc,primalloc;PRIMALLOC_GUARDED=maybe", 1,
     "error: a setting is wrong: primalloc: ignoring value 'maybe' for option 'guarded'"),
    ("large.py --passes 0", 2, "argument --passes: '0' is not a whole number above 0"),
    ("large.py --rows idle-*,nothing", 1,
     "error: no row matches nothing; bench/large.toml has them all"),
    ("large.py --report {tmp}/file", 1, "error: {tmp}/file was not printed by bench/large --json"),
])
def test_a_wrong_command_line_gets_one_clear_line(words, status, complaint, tmp_path):
    """Before anything is measured."""
    (tmp_path / "file").write_text("[]")
    script, *words = [word.replace("{tmp}", str(tmp_path)) for word in words.split()]
    answer = subprocess.run([sys.executable, BENCH / script, *words], text=True, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert answer.returncode == status
    assert complaint.replace("{tmp}", str(tmp_path)) in answer.stdout
    assert "Traceback" not in answer.stdout


def test_times_of_curves_need_no_valgrind():
    program = ("import argparse, sys; sys.path.insert(0, sys.argv[1])\n"
               "import curves\nfrom harness import counting\n"
               "def missing(): raise counting.BenchError('valgrind is not installed')\n"
               "counting.check_valgrind = missing\ncurves.build_workloads = lambda: None\n"
               "curves.measure_one = lambda *_: ['found']\nfound = {}\n"
               "for only in (['latency'], ['latency', 'calls']):\n"
               "    options = argparse.Namespace(only=only, allocators='glibc', quick=True)\n"
               "    try: list(curves.measure(options, found))\n"
               "    except counting.BenchError as error: print(list(found), error)\n")
    answer = subprocess.run([sys.executable, "-c", program, BENCH], check=True, text=True,
                            stdout=subprocess.PIPE, timeout=60).stdout
    assert answer.splitlines()[-1] == "['latency'] valgrind is not installed"


@pytest.mark.parametrize("words, complaint", [
    ("glibc;SETTING", "'SETTING' of the allocator glibc is not VARIABLE=VALUE"),
    ("glibc,glibc;A=1", "two allocators are called glibc"),
    ("mine=/nowhere.so;A=1", "there is no library /nowhere.so for the allocator mine"),
])
def test_wrong_allocators_get_one_clear_line(words, complaint):
    program = ("import sys; sys.path.insert(0, sys.argv[1])\n"
               "from harness.allocators import named_allocators\n"
               "from harness.environment import BenchError\n"
               "try: named_allocators(sys.argv[2].split(','))\n"
               "except BenchError as error: print(error)")
    answer = subprocess.run([sys.executable, "-c", program, BENCH, words], check=True,
                            stdout=subprocess.PIPE, text=True, timeout=60)
    assert answer.stdout.startswith(complaint)


@pytest.mark.parametrize("command", [
    ["floor.py", "--allocators"], ["graphs.py", "--out", "{tmp}", "--allocators"],
    ["instructions.py", "--allocators"], ["overhead.py", "A=1", "--library"]])
def test_no_other_library_is_measured_as_an_allocator(command, tmp_path):
    """The loader only warns of it, and the figures would be those of libc's malloc."""
    (tmp_path / "other.c").write_text("int other;\n")
    library = tmp_path / "other.so"
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "other.c", "-o", library], check=True)
    named = str(library) if command[-1] == "--library" else f"mine={library}"
    words = [word.replace("{tmp}", str(tmp_path)) for word in command[1:]]
    answer = subprocess.run([sys.executable, BENCH / command[0], *words, named], check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=300)
    assert answer.returncode == 1
    assert f"error: {library} does not take over malloc" in answer.stdout


@pytest.mark.parametrize("command", [["check_rows.py"], ["readme.py", "--check"]])
def test_the_tables_of_rows_are_whole(command):
    subprocess.run([sys.executable, BENCH / command[0], *command[1:]], check=True,
                   stdout=subprocess.DEVNULL, timeout=60)


def test_instructions_of_other_calls_are_counted():
    """By a command that anyone can repeat: free of no block is nearly free, realloc costs more."""
    command = [BENCH / "instructions.py", "--others", "--json", "--repeats", "100",
               "--allocators", "primalloc,glibc"]
    counts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True,
                                       timeout=300).stdout)
    assert list(counts) == ["primalloc", "glibc"]
    for calls in counts.values():
        assert 0 < calls["free_null"] < 30 < calls["realloc_32_to_64"]
        assert calls["realloc_null_64"] < calls["realloc_1000_to_2000"]
