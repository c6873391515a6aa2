"""The benchmarks' report: what it says of a run whose answer is known."""

import html.parser
import json
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from known_run import BENCH, raw_run


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


def test_a_report_changes_nothing_that_was_measured(asked, tmp_path):
    raw = raw_run({})
    asked(raw)
    assert (tmp_path / "raw.json").read_text() == json.dumps(raw), "it was written anew"


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
    asked(raw | {"passes": 1})
    says = "But of one pass the best peers are chosen and compared on the same figures."
    assert (tmp_path / "results.md").read_text().count(says) == 2


def test_who_has_the_least_wins_whoever_stands_first(asked, tmp_path):
    """All who have it, though the first column is ours."""
    asked(raw_run({(row, "thrifty"): (2.0, 900, 90) for row in ("loop", "program")}))
    text = (tmp_path / "results.md").read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()
             if line.startswith(("| primalloc |", "| thrifty |"))]
    assert [cells[-2] for cells in lines] == ["1", "3"], "rows of which peak RSS is least"
    kib = text.partition("## Peak resident memory")[2]
    assert "| threads-2 | **1.0** | 2.9 | **1.0** |" in kib


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


class Page(html.parser.HTMLParser):
    """Sees that what is opened is closed, and what a page asks of others; keeps heads and texts."""
    void = {"meta", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.asked, self.heads, self.fills = [], [], [], set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.open += [tag] if tag not in self.void else []
        self.asked += [value for name, value in attributes if name in ("src", "href")]
        self.heads += [named] if tag == "th" else []
        if tag == "text":
            self.fills.add(re.fullmatch(r"fill:var\(--(.*)\)", named["style"]).group(1))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)


def luminance(colour):
    """Of #rrggbb, as the guidelines for accessible pages have it."""
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
                        for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_page_is_whole_and_can_be_read_in_either_theme(asked, tmp_path):
    asked(raw_run({}))
    text = (tmp_path / "results.html").read_text()
    page = Page(text)
    assert all(link.startswith("#") for link in page.asked), "it needs nothing beside it"
    assert {head.get("scope") for head in page.heads} == {"col"}
    for picture in [*re.findall(r"<svg.*?</svg>", text, re.DOTALL),
                    (tmp_path / "corner.svg").read_text()]:
        assert xml.etree.ElementTree.fromstring(picture)[0].tag.endswith("title")
    for theme in re.findall(r":root\{(?:color-scheme:light dark;)?(--.*?)\}", text):
        colours = dict(one[2:].split(":") for one in theme.rstrip(";").split(";"))
        paper = luminance(colours["paper"]) + 0.05
        for fill in page.fills:
            light, dark = sorted((luminance(colours[fill]) + 0.05, paper), reverse=True)
            assert light / dark > 4.5, fill


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


def test_who_failed_once_is_reported(asked, tmp_path):
    asked(raw_run({}) | {"second_runs": [{"row": "loop", "allocator": "primalloc", "pass_number": 3,
                                          "reason": "killed by signal 11"}]})
    assert "| loop | primalloc | 3 | _killed by signal 11_ |" in (
        tmp_path / "results.md").read_text()


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


def test_what_is_published_is_one_run(tmp_path):
    """Neither curves of another run nor a run without peers, which leaves the README as it was."""
    readme = ("# Title\n<!-- results: written by bench/publish.py -->\nold\n"
              "<!-- end of results -->\nAfter.\n")
    (tmp_path / "README.md").write_text(readme)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "curves.json").write_text("{}")
    program = ("import pathlib, sys; sys.path.insert(0, sys.argv[1]); import publish\n"
               "publish.ROOT = pathlib.Path(sys.argv[2])\n"
               "publish.README = publish.ROOT / 'README.md'\n"
               "with publish.tidy_end(): publish.publish(publish.ROOT / sys.argv[3],"
               " publish.ROOT / 'results')")

    def publish(name, raw):
        (tmp_path / name).mkdir()
        (tmp_path / name / "raw.json").write_text(json.dumps(raw))
        return subprocess.run([sys.executable, "-c", program, BENCH, tmp_path, name], text=True,
                              check=False, stderr=subprocess.PIPE, timeout=300)

    alone = [one for one in raw_run({})["samples"] if one["allocator"] == "primalloc"]
    refused = publish("alone", raw_run({}) | {"samples": alone})
    assert refused.stderr.startswith("error: no peer has run a row"), refused.stderr
    assert (tmp_path / "README.md").read_text() == readme
    assert publish("whole", raw_run({})).returncode == 0
    assert not (tmp_path / "results" / "curves.json").exists()
    assert "| **primalloc** | 0.90 | 1.00 |" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "README.md").read_text().endswith("<!-- end of results -->\nAfter.\n")


def test_curves_are_judged(asked, tmp_path):
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
    facts = "curves, each in a run of its own: growth -, commit -, load before 0; threads -, commit"
    assert facts in (tmp_path / "results.md").read_text()
    assert line_of(bad, "the longest call")[1:3] == ["20,001: free, churn", "counted once"]
    assert line_of(bad, "the same: RSS of a thread")[1].startswith("17.0 KiB with 512")


def test_pages_needed_again_are_medians(asked):
    """Threads free and take by other turns each time: one pass is chance. Price: 1 us a page."""
    def pages(*needed_mib):
        rows = [{"pass": number, "row": "busy", "wall_s": 1.0, "purge_calls": 1,
                 "purged_bytes": 99 << 20, "needed_again_bytes": mib << 20}
                for number, mib in enumerate(needed_mib)]
        one = {"machine": {"date": "-", "commit": "-", "load_before": 0}, "quick": False,
               "found": {"page_price_us": 1.0, "rows": rows}}
        return line_of(asked(raw_run({}), {"pages": one}), "pages given back")

    once = pages(79)
    assert once[1].startswith("2.0% (busy); 1 of 1") and once[2:] == ["counted once", "missed"]
    several = pages(79, 20, 10)
    assert several[1].startswith("0.5% (busy); 0 of 1") and several[2] == "medians of 3"


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
