"""The statistics of a running program in every form, read as a stranger would: by a parser of the
form, against the table of figures."""

import json
import pathlib
import re
import shutil
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = (ROOT / "src" / "watch" / "figures.def").read_text().split("*/", 1)[1]
ROW = r'^%s\((\w+), (\w+), (\w+), "([^"]+)"\)'
FIGURES = re.findall(ROW % "FIGURE", TABLE, re.MULTILINE)
CLASS_FIGURES = re.findall(ROW % "CLASS_FIGURE", TABLE, re.MULTILINE)
HEAP_FIGURES = re.findall(ROW % "HEAP_FIGURE", TABLE, re.MULTILINE)
HEAP_BYTES = 320 * 7 + 16384  # in the fixture's heap of the name "requests"
BALANCE = [name for name, group, _, _ in FIGURES if group == "BALANCE"]
TEXT, JSON, XML, OPENMETRICS, MALLOC_INFO = 0, 1, 2, 3, 9
HELD = 10 * 1000000  # bytes in the fixture's large blocks


@pytest.mark.parametrize("file, target, rows", [
    ("snapshot.c", "snapshot->", FIGURES), ("snapshot.c", r"(class->|\s\.)", CLASS_FIGURES),
    ("heap_rows.c", r"\s\.", HEAP_FIGURES)])
def test_no_figure_is_forgotten(file, target, rows):
    """They are filled in one by one, but for those of the process; one left out would be 0."""
    source = (ROOT / "src" / "watch" / file).read_text()
    for name, group, _, _ in rows:
        assert group == "PROCESS" or re.search(rf"{target}{name} \+?=\s", source), name


@pytest.fixture
def write(harness, fixtures):
    """The fixture's statistics in a form, as text."""

    def run(form, **changes):
        command = [fixtures("statistics.c"), form]
        return harness.run_preloaded(command, changes=changes).stdout.decode()

    return run


def check_figures(figures):
    assert sum(figures[name] for name in BALANCE) == figures["mapped_bytes"]
    assert HELD <= figures["large_bytes"] < HELD * 1.1 and figures["large_blocks"] == 10
    assert figures["live_blocks"] >= 990
    assert figures["threads"] == 1
    assert figures["rss_bytes"] >= figures["live_bytes"]


def check_heaps(rows, figures):
    assert sum(int(row["live_bytes"]) for row in rows) == figures["heap_bytes"]
    assert len(rows) == figures["heaps"] == 3
    named, = (row for row in rows if row["name"] == "requests")
    assert named["kind"] == "heap" and int(named["live_bytes"]) == HEAP_BYTES
    assert int(named["freed_blocks"]) == 3 and int(named["total_blocks"]) == 11
    assert {row["kind"] for row in rows} == {"heap", "deleted"}
    for row in rows:
        assert int(row["total_bytes"]) - int(row["freed_bytes"]) == int(row["live_bytes"])
        assert int(row["peak_bytes"]) <= int(row["total_bytes"])
        assert int(row["address"], 16) > 0


@pytest.mark.parametrize("stats", ["off", "full"])
def test_json(write, stats):
    document = json.loads(write(JSON, PRIMALLOC_STATS=stats))
    assert list(document) == ["schema", "version", "pid", "program", "calls_counted", "verdict",
                              "figures", "classes", "heaps"]
    assert document["schema"] == "primalloc-stats-2"
    assert document["version"] == (ROOT / "VERSION").read_text().strip()
    assert document["program"] == "statistics"
    figures, classes = document["figures"], document["classes"]
    assert list(figures) == [row[0] for row in FIGURES]
    check_figures(figures)
    for row in classes:
        assert list(row) == [figure[0] for figure in CLASS_FIGURES]
        assert row["peak_bytes"] >= row["live_bytes"] and row["slabs_made"] >= row["slabs"]
    for row in document["heaps"]:
        assert list(row) == ["kind", "name", "address", *(figure[0] for figure in HEAP_FIGURES),
                             "verdict"]
        assert row["verdict"] == ("not all freed" if row["live_blocks"] else "ok")
    assert classes[-1]["block_bytes"] == 0 and classes[-1]["live_bytes"] == figures["large_bytes"]
    assert sum(row["live_bytes"] for row in classes[:-1]) == figures["live_bytes"]
    assert document["calls_counted"] == (stats == "full")
    if stats == "off":
        assert document["verdict"] is None and figures["allocations"] == 0
    else:
        assert document["verdict"] == "not all freed"
        assert figures["requested_bytes"] >= HELD
        for row in classes:
            assert row["allocations"] - row["frees"] == row["live_blocks"], row
            assert row["live_blocks"] <= row["peak_blocks"] <= row["allocations"]
        assert figures["heap_allocations"] - figures["heap_frees"] == figures["heap_blocks"]
    check_heaps(document["heaps"], figures)


def test_peak_is_the_programs_own(write):
    """And not of the process that called exec."""
    ballast = b"x" * (200 << 20)
    figures = json.loads(write(JSON))["figures"]
    assert figures["rss_bytes"] <= figures["rss_peak_bytes"] < len(ballast) / 2


@pytest.mark.parametrize("form", [XML, MALLOC_INFO])
def test_xml(write, form):
    root = xml.etree.ElementTree.fromstring(write(form))
    assert root.tag == "malloc" and root.get("version") == "primalloc-1"
    figures = {item.get("name"): int(item.get("value")) for item in root.findall("figure")}
    assert list(figures) == [name for name, group, _, _ in FIGURES if group != "CALL"]
    check_figures(figures)
    system = {item.get("type"): int(item.get("size")) for item in root.findall("system")}
    assert system == {"current": figures["mapped_bytes"], "max": figures["mapped_bytes"]}
    assert root.find("threads").get("count") == "1"
    classes = root.find("classes").findall("class")
    assert sum(int(item.get("live_bytes")) for item in classes) == (
        figures["live_bytes"] + figures["large_bytes"])
    check_heaps([item.attrib for item in root.find("heaps")], figures)
    full = xml.etree.ElementTree.fromstring(write(form, PRIMALLOC_STATS="full"))
    assert {item.get("name") for item in full.findall("figure")} == {row[0] for row in FIGURES}


LABELS = r'class="\d+|class="large|kind="[a-z]+",name="[^"]*"(?:,address="0x[0-9a-f]+)?'
SAMPLE = re.compile(r'^(?P<name>[a-z_]+)(?:\{(?P<class>' + LABELS + r')"\})? '
                    r'(?P<value>\d+(?:\.\d+)?)$')
ABOUT = re.compile(r"^# (?P<what>TYPE|UNIT|HELP) (?P<name>[a-z_]+) (?P<text>.+)$")


def parse_openmetrics(text):
    """{family: {"type": ..., "samples": {class or None: value}}}, as OpenMetrics 1.0 rules."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    families = {}
    for line in lines[:-2]:
        about, sample = ABOUT.match(line), SAMPLE.match(line)
        assert about or sample, line
        if about:
            name = about["name"]
            if about["what"] == "TYPE":
                assert name not in families, f"{name} comes twice"
                families[name] = {"samples": {}}
            assert list(families)[-1] == name, f"{name} is not in one piece"
            key = about["what"].lower()
            assert key not in families[name]
            families[name][key] = about["text"]
            assert key != "unit" or name.endswith(f"_{about['text']}")
            continue
        name = list(families)[-1]
        suffix = {"counter": "_total", "gauge": ""}[families[name]["type"]]
        assert sample["name"] == name + suffix
        assert sample["class"] not in families[name]["samples"]
        families[name]["samples"][sample["class"]] = float(sample["value"])
    return families


@pytest.mark.parametrize("stats", ["off", "full"])
def test_openmetrics(write, stats):
    families = parse_openmetrics(write(OPENMETRICS, PRIMALLOC_STATS=stats))

    def values(prefix, rows):
        found = {}
        for name, group, kind, sentence in rows:
            if group == "CALL" and stats == "off" or name == "block_bytes":
                continue
            family = families.pop(prefix + re.sub("_ms$", "_seconds", name))
            assert family["type"] == kind.lower() and family["help"] == sentence
            found[name] = family["samples"]
        return found

    figures = {name: samples[None] for name, samples in values("primalloc_", FIGURES).items()}
    check_figures(figures)
    assert 0 < figures["elapsed_ms"] < 100  # in seconds
    classes = values("primalloc_class_", CLASS_FIGURES)
    assert sum(classes["live_bytes"].values()) == figures["live_bytes"] + figures["large_bytes"]
    for name, samples in values("primalloc_named_heap_", HEAP_FIGURES).items():
        (labels, value), = samples.items()
        assert labels.startswith('kind="heap",name="requests",address="0x')
        assert name != "live_bytes" or value == HEAP_BYTES
    assert not families


def test_a_class_that_was_used_stays(harness, fixtures):
    """Whose blocks are all free, and its slabs gone: else counters would vanish."""
    program = fixtures("emptied_classes.c")
    text, document, metrics = (harness.run_preloaded([program, form]).stdout.decode()
                               for form in (TEXT, XML, OPENMETRICS))
    made = parse_openmetrics(metrics)["primalloc_class_slabs_made"]["samples"]
    slabs = parse_openmetrics(metrics)["primalloc_class_slabs"]["samples"]
    for label in ('class="49152', 'class="large'):
        assert made[label] > 0 and slabs[label] == 0, label
    classes = xml.etree.ElementTree.fromstring(document).iter("class")
    rows = {row.get("block_bytes") for row in classes}
    assert {"49152", "0"} <= rows, rows
    classes = text.split("by class:")[1]
    assert re.search(r"^ +49152 ", classes, re.MULTILINE), classes
    assert re.search(r"^ +large ", classes, re.MULTILINE), classes


def test_text(write):
    text = write(TEXT)
    for name, group, _, sentence in FIGURES:
        line = re.search(rf"^  {name} +\d+ .*  {re.escape(sentence)}$", text, re.MULTILINE)
        assert (line is None) == (group == "CALL"), name
    assert not re.search("^verdict", text, re.MULTILINE)
    assert re.search(r"^heaps and tags: .* verdict$", text, re.MULTILINE)
    assert re.search(r"^  heap requests( +\d+){7}  not all freed$", text, re.MULTILINE)
    assert re.search(r"^  heap 0x[0-9a-f]+( +\d+){7}  ok$", text, re.MULTILINE)
    assert re.search(r"^process: elapsed \d+\.\d s, user .*, faults \d+, rss .* \(peak .*\), "
                     r"commit .* \(peak .*\)$", text, re.MULTILINE)
    full = write(TEXT, PRIMALLOC_STATS="full")
    assert re.search(r"^verdict: not all freed: \d+ blocks$", full, re.MULTILINE)
    assert re.search(r"^  requested_bytes ", full, re.MULTILINE)


def test_long_names_leave_lines_whole(harness):
    program = harness.directory / ("n" * 255)
    program.symlink_to(shutil.which("true"))
    result, (process,) = harness.run_counted([program], changes={"PRIMALLOC_VERBOSE": "1"})
    assert process.program == program.name
    assert result.stderr.decode().splitlines()[0].endswith(f"({program.name})")


@pytest.mark.parametrize("what, setting", [
    ("heap", "STATS=off"), ("profile", "PROFILE=p.pb.gz,rate=1"), ("begin", "PROFILE=,rate=1"),
    ("end", "PROFILE=,rate=1"), ("leaks", "LEAK_CHECK=normal"), ("checks", "CHECK=report")])
def test_a_handler_asks(harness, fixtures, each_library, what, setting):
    """While the program is in a call, and may hold the lock, there is no answer."""
    name, value = setting.split("=", 1)
    environment = harness.environment(LD_PRELOAD=str(each_library), **{f"PRIMALLOC_{name}": value})
    program = fixtures("ask_in_handler.c", f"-I{ROOT / 'include'}")
    result = harness.run([program, what], environment=environment, timeout=60)
    assert result.stdout == b"asked\n"


@pytest.mark.parametrize("leak", [False, True])
def test_show_stats_at_exit(harness, fixtures, leak):
    command = [fixtures("statistics.c"), TEXT, *(["leak"] if leak else [])]
    changes = {"PRIMALLOC_SHOW_STATS": "1", "PRIMALLOC_STATS": "full"}
    text = harness.run_preloaded(command, changes=changes).stderr.decode()
    assert text.startswith("primalloc ") and "(statistics)" in text.split("\n", 1)[0]
    large = re.search(r"^ +large +(\d+) .*  (ok|not all freed)$", text, re.MULTILINE)
    assert large[1] == ("1" if leak else "0") and large[2] == ("not all freed" if leak else "ok")


def test_calls_of_a_hardened_heap(harness, fixtures):
    changes = {"PRIMALLOC_SHOW_STATS": "1", "PRIMALLOC_STATS": "full", "PRIMALLOC_HARDENED": "1"}
    text = harness.run_preloaded([fixtures("statistics.c"), TEXT, "leak"], changes=changes).stderr
    verdicts = re.findall(r"^ +(\S+) .*  (ok|not all freed)$", text.decode(), re.MULTILINE)
    assert len(verdicts) > 20 and {row[0] for row in verdicts if row[1] != "ok"} == {"large"}


@pytest.mark.parametrize("observer", [{}, {"PRIMALLOC_PROFILE": "/dev/null"},
                                      {"PRIMALLOC_GUARDED": "1"}])
def test_what_the_library_takes_for_itself_is_not_the_programs(harness, fixtures, observer):
    """A program that frees all has the verdict ok, under a tag and observed."""
    changes = {"PRIMALLOC_SHOW_STATS": "1", "PRIMALLOC_STATS": "full", **observer}
    text = harness.run_preloaded([fixtures("frees_all.c")], changes=changes).stderr.decode()
    assert re.search(r"^ +tag all +0 .* ok$", text, re.MULTILINE), text
    assert re.search(r"^verdict: ok$", text, re.MULTILINE), text


@pytest.mark.parametrize("check", ["off", "full"])
def test_a_block_that_grows_stays_under_its_tag(harness, fixtures, check):
    command = [fixtures("statistics.c"), JSON, "tag"]
    result = harness.run_preloaded(command, changes={"PRIMALLOC_CHECK": check})
    tag, = json.loads(result.stdout)["heaps"]
    assert tag["name"] == "grows" and 3000000 <= tag["live_bytes"] < 5000000


def test_without_memory_there_are_none(harness, fixtures):
    result = harness.run_preloaded([fixtures("no_memory.c")],
                                   changes={"PRIMALLOC_SHOW_STATS": "1"})
    assert result.stderr == b"primalloc: no statistics: no memory, or an interrupted call\n"


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_counts_of_a_heap_hold_nothing_that_was_only_tried(harness, fixtures, limit):
    """Nor does a child that is forked meanwhile."""
    program = fixtures("heap_growing.c", f"-I{ROOT / 'include'}")
    assert harness.run_preloaded([program, limit]).stdout == b"exact\n"
