"""The benchmarks' report: what it says of a run whose answer is known, and the tables of rows."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
PASSES = 8
ROWS = {"loop": "small", "program": "apps", "threads-2": "threads"}
ALLOCATORS = ("primalloc", "primalloc-again", "fast", "thrifty")
# Seconds and KiB of every allocator in every row, unless a test says otherwise.
USUAL = {"primalloc": (0.9, 1000, 90), "primalloc-again": (0.9, 1000, 90), "fast": (1.0, 3000, 10),
         "thrifty": (2.0, 1000, 100)}


def sample(row, name, number, figures):
    seconds, kib, faults = figures
    seconds *= 1 + 0.001 * number
    return {"pass_number": number, "row": row, "allocator": name, "score_s": seconds,
            "wall_s": seconds, "user_s": seconds, "system_s": 0.0, "peak_rss_kib": kib,
            "minor_faults": faults, "major_faults": 0, "voluntary_switches": 0,
            "involuntary_switches": 0}


def raw_run(changed, leave_early=()):
    """A campaign; changed: {(row, allocator): figures}; leave_early: peers with one pass only."""
    return {
        "machine": {"cores": 2}, "seed": 1, "passes": PASSES, "skipped": {}, "failures": [],
        "allocators": [{"name": name, "version": "1", "source": "-"} for name in ALLOCATORS],
        "rows": [{"name": row, "group": group, "about": "A row.", "score": "time", "threads": 1}
                 for row, group in ROWS.items()],
        "samples": [sample(row, name, number, changed.get((row, name), USUAL[name]))
                    for row in ROWS for name in ALLOCATORS
                    for number in range(1, 2 if name in leave_early else PASSES + 1)]}


@pytest.fixture
def asked(tmp_path):
    """asked(raw, curves) draws the report; {beginning of a line: its other cells}."""
    def draw(raw, curves=None):
        (tmp_path / "raw.json").write_text(json.dumps(raw))
        (tmp_path / "curves.json").write_text(json.dumps(curves or {}))
        subprocess.run([sys.executable, BENCH / "run.py", "--report", tmp_path], check=True,
                       stdout=subprocess.DEVNULL, timeout=300)
        assert (tmp_path / "corner.svg").read_text().startswith("<svg")
        assert "<svg" in (tmp_path / "results.html").read_text()
        text = (tmp_path / "results.md").read_text()
        table = text.partition("## What was asked")[2].partition("\n## ")[0]
        cells = [[cell.strip(" *_") for cell in line.strip("|").split(" | ")]
                 for line in table.splitlines() if line.startswith("|")]
        return {line[0]: line[1:] for line in cells}
    return draw


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


def campaign_of(tmp_path, rows, allocators):
    """What a campaign of shell scripts keeps: rows are {name: (score, script)}, allocators names of
    a setting NAME=1 that the scripts see."""
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
        "from harness.allocators import Allocator\nfrom harness.campaign import Campaign\n"
        "from harness.environment import BenchError\nfrom harness.rows import Row\n"
        "from harness.terminal import Reporter\n"
        "rows = [Row(name, 'small', ('sh', '-c', script), (), (), score, 1, 1.0, True, 'A row.')\n"
        "        for name, (score, script) in json.loads(sys.argv[3]).items()]\n"
        "ways = [Allocator(name, None, '1', '-', {name: '1'}) for name in sys.argv[4:]]\n"
        "with Reporter(len(rows) * len(ways)) as reporter:\n"
        "    campaign = Campaign(rows, ways, 1, Path(sys.argv[2]), reporter)\n"
        "    try: campaign.run(0.001, None)\n"
        "    except BenchError as error: print(error)\n"
        "print('\\n' + json.dumps(campaign.raw({})))\n")
    answer = subprocess.run(
        [sys.executable, "-c", program, BENCH, tmp_path, json.dumps(rows), *allocators],
        stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    return answer, json.loads(answer.splitlines()[-1])


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


def test_a_run_in_which_all_fails_says_so(tmp_path):
    answer, raw = campaign_of(tmp_path, {"loop": ("time", "exit ${bad:-0}")}, ["bad"])
    assert "no trial of a whole pass succeeded, so there is nothing to report" in answer
    assert raw["failures"][0]["reason"] == "exit status 1: no output"


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
         "--sizes", "64", "--minutes", "60", "--out", tmp_path],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    trials = tmp_path / "trials.csv"
    deadline = time.monotonic() + 300
    while not (trials.exists() and trials.read_text().count("\n") > 2):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    assert " trials are drawn" in run.communicate(timeout=60)[1]
    assert run.returncode == 0
    assert "<svg" in (tmp_path / "graphs.html").read_text()


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


def line_of(lines, beginning):
    return next(cells for what, cells in lines.items() if what.startswith(beginning))


def test_a_run_that_reaches_all_is_said_to(asked):
    lines = asked(raw_run({}))
    assert line_of(lines, "time, geometric mean") == [
        "≤ 0.93", "0.900 (0.90-0.90)", "0.900 (0.90-0.90)", "reached"]
    for beginning in ("rows whose time", "peak RSS, geometric", "rows whose RSS", "real programs"):
        assert line_of(lines, beginning)[-1] == "reached", beginning
    # fast has fewer faults, but three times the memory: it is not what these are compared with.
    assert line_of(lines, "minor faults")[1:] == ["0.900 (0.90-0.90)", "0.900 (0.90-0.90)",
                                                  "reached"]
    assert line_of(lines, "growth")[-1] == "-"


def test_bounds_of_few_passes_are_said_to_hold_less(asked, tmp_path):
    raw = raw_run({})
    asked(raw)
    says = "But of 4 compared passes such bounds hold in 87 % of cases only"
    assert (tmp_path / "results.md").read_text().count(says) == 2
    asked(raw | {"passes": 10})
    assert says not in (tmp_path / "results.md").read_text()


def test_a_slow_row_and_a_large_one_are_named(asked):
    lines = asked(raw_run({("loop", "primalloc"): (1.2, 1000, 90),
                           ("threads-2", "primalloc"): (0.9, 4000, 90)}))
    assert line_of(lines, "rows whose time")[1:] == [
        "1 row, the worst loop with 1.20", "none", "missed"]
    assert line_of(lines, "rows whose RSS")[1:] == [
        "1 row, the worst threads-2 with 4.00", "none", "missed"]


def test_what_was_not_measured_is_not_reached(asked):
    """Of peers alone nothing is asked, and without the second entry there is no control."""
    def without(*names):
        raw = raw_run({})
        return raw | {part: [one for one in raw[part] if one[key] not in names]
                      for part, key in (("allocators", "name"), ("samples", "allocator"))}

    for what, cells in asked(without("primalloc", "primalloc-again")).items():
        assert what in ("what", "---") or cells[1:] == ["-", "-", "-"], what
    for beginning in ("rows whose time", "rows whose RSS"):
        assert line_of(asked(without("primalloc-again")), beginning)[1:] == [
            "none", "-", "reached"], beginning


def test_a_row_without_bounds_does_not_pass_for_a_fast_one(asked):
    """Who was best on the odd passes may have been left out as far behind after two."""
    raw = raw_run({("loop", "primalloc"): (1.2, 1000, 90)})
    raw["samples"] = [one for one in raw["samples"] if one["pass_number"] < 3
                      or (one["row"], one["allocator"]) != ("loop", "fast")]
    assert line_of(asked(raw), "rows whose time")[1:] == [
        "none; 1 above 1.05 without bounds", "none", "-"]


def test_a_peer_that_ran_once_is_still_the_thriftiest(asked):
    lines = asked(raw_run({("loop", "primalloc"): (0.9, 5000, 90)}, leave_early=("thrifty",)))
    assert line_of(lines, "rows whose RSS")[1] == "1 row, the worst loop with 5.00"


def test_pictures_hold_all_that_is_drawn():
    """Bounds of a row that varies a hundredfold, and figures that are all 0."""
    raw = raw_run({})
    for one in raw["samples"]:
        if one["allocator"] == "primalloc":
            factor = {2: 0.1, 4: 0.1, 6: 3, 8: 9}.get(one["pass_number"], 1)
            one |= {"score_s": one["score_s"] * factor, "peak_rss_kib": 1000 * factor}
    program = ("import json, sys; sys.path.insert(0, sys.argv[1])\n"
               "from harness.analysis import Analysis\nfrom harness import plots\n"
               "analysis = Analysis(json.load(sys.stdin))\n"
               "pictures = [plots.corner_plot(analysis),\n"
               "            plots.bar_plot(analysis, 'time', 'Time'),\n"
               "            plots.rows_plot(analysis, 'time', 'Rows'),\n"
               "            plots.line_plot('Zero', ['1', '2'], 'x', {'glibc': [0, 0]}, 'y')]\n"
               "json.dump([[one.width, one.height, one.elements] for one in pictures], sys.stdout)")
    drawn = subprocess.run([sys.executable, "-c", program, BENCH], input=json.dumps(raw), text=True,
                           stdout=subprocess.PIPE, check=True, timeout=60).stdout
    for width, height, elements in json.loads(drawn):
        for element in elements:
            for axis, number in re.findall(r'\b[cd]?([xy])[12]?="(-?[\d.]+)"', element):
                assert 0 <= float(number) <= (width if axis == "x" else height), element


def test_a_row_that_fails_is_not_reached(asked):
    """What is left out of a mean for it would only flatter."""
    raw = raw_run({})
    raw["failures"] = [{"row": "loop", "allocator": "primalloc", "reason": "timeout"}]
    lines = asked(raw)
    assert line_of(lines, "time, geometric mean")[1:] == [
        "0.900 (0.90-0.90); failed on loop", "0.900 (0.90-0.90)", "missed"]
    assert line_of(lines, "rows whose time")[1:] == ["none; failed on loop", "none", "missed"]
    for beginning in ("peak RSS, geometric", "rows whose RSS", "minor faults"):
        assert line_of(lines, beginning)[-1] == "missed", beginning
    assert line_of(lines, "real programs, time")[-1] == "reached", "another group"


def test_what_is_published_names_the_rows_that_a_mean_lacks():
    raw = raw_run({})
    raw["failures"] = [{"row": "loop", "allocator": "fast", "reason": "timeout"}]
    program = ("import json, sys; sys.path.insert(0, sys.argv[1])\n"
               "from harness.analysis import Analysis\nimport publish\n"
               "analysis = Analysis(json.load(sys.stdin))\n"
               "print(publish.results_section(analysis, publish.BENCH / 'results' / 'x'))")
    text = subprocess.run([sys.executable, "-c", program, BENCH], input=json.dumps(raw), text=True,
                          stdout=subprocess.PIPE, check=True, timeout=60).stdout
    assert "Without rows on which the program failed: fast on `loop`." in text


def test_curves_are_judged(asked):
    def growth(name, misses):
        return [{"allocator": name, "live": live, "build": misses, "replace": misses,
                 "drop": misses} for live in (1000, 10_000_000)]

    def threads(name, kib_a_thread):
        return [{"pass": 1, "allocator": name, "threads": count, "ns": 10.0, "cpu_ns": 10.0,
                 "working_kib": 500 + kib_a_thread * count, "idle_kib": None}
                for count in (1, 512)]

    def curves(misses, kib, longest):
        found = {"growth": growth("primalloc", misses) + growth("no allocator", 1.0),
                 "threads": threads("primalloc", kib) + threads("no allocator", 100.0),
                 "calls": [{"allocator": "primalloc", "scene": scene, "call": "free", "count": 1,
                            "median": 15, "p99": 20, "longest": longest}
                           for scene in ("churn", "bulk", "after a pause", "threads")]}
        machine = {"date": "-", "commit": "-", "load_before": 0}
        return {name: {"machine": machine, "quick": False, "found": one}
                for name, one in found.items()}

    beginnings = ("growth", "the same: RSS of a thread", "the longest call")
    good = asked(raw_run({}), curves(1.2, 116.0, 20_000))
    assert [line_of(good, one)[-1] for one in beginnings] == ["reached"] * 3
    bad = asked(raw_run({}), curves(1.3, 117.0, 20_001))
    assert [line_of(bad, one)[-1] for one in beginnings] == ["missed"] * 3
    assert line_of(bad, "the longest call")[1] == "20,001: free, churn"
    assert line_of(bad, "the same: RSS of a thread")[1].startswith("17.0 KiB with 512")


def test_curves_with_gaps_are_drawn(asked):
    """A program that fails with 512 threads, say, or in all even passes, leaves one."""
    def threads(name, counts):
        return [{"pass": 1, "allocator": name, "threads": count, "ns": 10.0, "cpu_ns": 10.0,
                 "working_kib": 500 + 9 * count, "idle_kib": None} for count in counts]

    def latency(name, passes):
        fields = [f"{call}_{part}_ns" for call in ("malloc", "free")
                  for part in ("p50", "p99", "p999", "p9999", "longest")]
        return [{"pass": number, "allocator": name, **dict.fromkeys(fields, 9)}
                for number in passes]

    def lines(found_threads, found_latency=()):
        machine = {"date": "-", "commit": "-", "load_before": 0}
        found = {"threads": found_threads, "latency": list(found_latency)}
        return asked(raw_run({}), {name: {"machine": machine, "quick": False, "found": one}
                                   for name, one in found.items()})

    bare = threads("no allocator", (1, 8, 512))
    drawn = lines(threads("primalloc", (1, 8, 512)) + threads("primalloc-again", (1, 8)) + bare,
                  latency("primalloc", (1, 2)) + latency("fast", (1,)) + latency("slow", (1, 2)))
    assert line_of(drawn, "the same: RSS")[1:] == [
        "0.0 KiB with 512, the most 0.0 with 8", "-", "reached"]
    assert line_of(drawn, "latency: 99.99th percentile of malloc")[1] == "1.00 of slow"
    # What primalloc itself lacks is named, and then nothing is reached.
    drawn = lines(threads("primalloc", (1, 512)) + bare,
                  latency("primalloc", (1, 2)) + latency("slow", (1, 2, 3)))
    assert line_of(drawn, "1 to 512 threads")[1:] == [
        "1.00; the same accesses without an allocator 1.00; without 8 threads", "-", "-"]
    assert line_of(drawn, "latency: 99.99th percentile of free")[1:] == [
        "1.00 of slow; without 1 of the passes", "-", "-"]
    assert line_of(lines(threads("primalloc", (512,)) + bare), "the same: RSS")[1] == "-"
    assert line_of(lines(threads("primalloc", (1, 512))), "1 to 512 threads")[1] == "-"


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
