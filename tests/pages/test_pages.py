"""The tool's HTML pages: parsed by a strict parser, and looked at in a real browser."""

import json
import re

import pytest

from browser import brightness, colours
from conftest import MARKUP, parse

SVG = "{http://www.w3.org/2000/svg}"
KINDS = ["profile", "report", "leaks", "diff"]
SECTIONS = {
    "profile": ["timeline", "flame", "libraries", "histograms", "top", "facts"],
    "report": ["timeline", "flame", "libraries", "histograms", "top", "facts"],
    "leaks": ["groups", "flame", "libraries", "top", "facts"],
    "diff": ["flame", "top", "facts"],
}
# Pictures of a flame graph in each view: after and before in a comparison.
FLAMES = {"profile": 1, "report": 1, "leaks": 1, "diff": 2}

# What a reader does: shows another view, looks at a frame, looks for a function, sorts. What came
# of it is written into the document.
VISIT = """
<script>
addEventListener("load", () => {
  const note = (name, value) => document.body.setAttribute("data-" + name, value);
  const shown = (all) => [...all].filter((one) => one.getClientRects().length > 0);
  const flame = () => shown(document.querySelectorAll(".flame"))[0];
  note("width", document.documentElement.scrollWidth - innerWidth);
  note("views", shown(document.querySelectorAll("figure.view")).length);
  const names = [...flame().querySelectorAll(".f")];
  const deep = names.find((frame) => parseFloat(frame.getAttribute("width")) < 99);
  deep.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  note("zoomed", deep.getAttribute("width"));
  document.querySelector(".whole").click();
  note("back", deep.getAttribute("width") !== "100%");
  const press = (key) => {
    flame().dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    return document.querySelector(".told").textContent.split(" ")[0];
  };
  note("keys", ["ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight"].map(press).join(" "));
  press("Escape");
  note("escaped", deep.getAttribute("width") !== "100%");
  const search = document.querySelector(".find input");
  search.value = "main";
  search.dispatchEvent(new Event("input"));
  note("found", document.querySelector(".told").textContent);
  const head = shown(document.querySelectorAll("thead th[scope]"))[0];
  head.click();
  const order = (a, b) => a.localeCompare(b);
  const rows = [...head.closest("table").tBodies[0].rows];
  const texts = rows.map((row) => row.cells[0].textContent.trim());
  note("ordered", texts.join() === [...texts].sort(order).join());
  note("sorted", head.getAttribute("aria-sort"));
  head.focus();
  head.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
  note("keyed", head === document.activeElement && head.getAttribute("aria-sort"));
  document.querySelectorAll("input[name=view]")[1].click();
  note("other", shown(document.querySelectorAll(".view.v1")).length > 0
       && shown(document.querySelectorAll(".view.v0")).length === 0);
});
</script>
"""


def of_class(tree, name):
    return [element for element in tree.iter() if name in element.get("class", "").split()]


def text_of(element):
    return " ".join("".join(element.itertext()).split())


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_its_parts(pages, kind):
    tree = parse(pages / f"{kind}.html")
    identities = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(identities) == len(set(identities))
    for section in SECTIONS[kind]:
        assert identities.count(section) == 1, section
    views = len(of_class(tree, "tile"))
    assert views >= 2
    assert len(of_class(tree, "flame")) == FLAMES[kind] * views
    assert tree.get("lang") == "en" and text_of(tree.find("head/title"))
    for picture in of_class(tree, "flame") + of_class(tree, "treemap") + of_class(tree, "timeline"):
        assert picture.get("role") == "img" and picture.get("aria-label")
    assert "primalloc" in text_of(tree.find(".//header"))
    json.loads(tree.find(".//script[@id='report']").text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_needs_nothing_else(pages, kind):
    tree = parse(pages / f"{kind}.html")
    for element in tree.iter():
        for name in ("src", "href", "{http://www.w3.org/1999/xlink}href", "action", "data"):
            assert element.get(name) is None, f"{element.tag} {name}={element.get(name)}"
    text = (pages / f"{kind}.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|url\(|@import|<link", text)


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_look_like_markup_are_text(pages, kind):
    tree = parse(pages / f"{kind}.html")
    assert len(tree.findall(".//script")) == 2
    # Tables have the name without what looks like arguments, titles the whole.
    shown = [(element.text, element.get("title")) for element in tree.iter("code")]
    assert any(text.startswith("<script>") for text, _ in shown), "in a table"
    assert kind == "leaks" or any(title == MARKUP for _, title in shown), "in a table"
    titles = [title.text for title in tree.iter(f"{SVG}title")]
    assert any(title.startswith(MARKUP) for title in titles), "in a picture"
    assert not tree.findall(".//b")


def test_figures_are_those_of_the_json(pages):
    report = json.loads((pages / "report.json").read_text())
    assert (report["format"], report["kind"], report["sample_bytes"]) == (1, "heap", 1)
    assert report["views"][0] == "live" and "peak" in report["views"]
    shelves = next(row for row in report["functions"] if row["function"] == MARKUP)
    # 200 shelves of 1,000 bytes and 50 more each, and 20 pairs of 100 that are lost.
    assert shelves["own"]["live"] == {"bytes": 200 * 1000 + 50 * 199 * 100 + 4000, "objects": 240}
    tree = parse(pages / "report.html")
    rows = [text_of(row) for row in tree.iter("tr") if "<script>" in text_of(row)]
    assert any("1.14 MiB" in row and "240" in row for row in rows), rows
    assert report["timeline"] and report["live_sizes"] and report["lifetimes"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_finds_a_way_about(pages, browser, tmp_path, kind):
    page = tmp_path / f"{kind}.html"
    text = (pages / f"{kind}.html").read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", VISIT + "</body>"), encoding="utf-8")
    for width in (1280, 400):
        body = re.search(r"<body[^>]*>", browser.document(page, size=(width, 900)))[0]
        said = dict(re.findall(r'data-([a-z]+)="([^"]*)"', body))
        assert int(said["width"]) <= 0, f"wider than the window of {width}: {said}"
        assert int(said["views"]) >= 1 and said["other"] == "true", said
        assert said["zoomed"] == "100%" and said["back"] == "true", said
        # From all to its widest callee and on, and back; it has no neighbour.
        assert said["keys"] == "_start __libc_start_main_impl _start _start", said
        assert said["escaped"] == "true", said
        assert re.match(r"\d+ frames?, [\d.]+ % of all bytes", said["found"]), said
        assert said["sorted"] == "ascending" and said["ordered"] == "true", said
        assert said["keyed"] == "descending", said


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_drawn_in_light_and_dark(pages, browser, kind):
    for width, height in ((1280, 2600), (400, 3600)):
        light = browser.picture(pages / f"{kind}.html", "light", (width, height))
        dark = browser.picture(pages / f"{kind}.html", "dark", (width, height))
        assert light.size == dark.size == (width, height)
        assert brightness(light) > 200 and brightness(dark) < 60
        assert colours(light) > 200 and colours(dark) > 200
