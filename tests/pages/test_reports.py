"""The pages of the verbs that report on time and memory, as test_pages.py looks at profiles."""

import json
import re

import pytest

from browser import brightness, colours
from conftest import REPORTS, parse

SVG = "{http://www.w3.org/2000/svg}svg"
WIDTH = """
<script>
document.body.setAttribute("data-width", document.documentElement.scrollWidth - innerWidth);
</script>
"""


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_is_well_formed_and_needs_nothing_else(reports, kind):
    path = reports / f"{kind}.html"
    tree = parse(path)
    assert tree.get("lang") == "en" and "primalloc" in tree.find("head/title").text
    assert len(tree.findall(".//script")) == 1
    json.loads(tree.find(".//script[@id='report']").text)
    named = [one for one in tree.iter() if one.get("role") == "img" and one.get("aria-label")]
    pictures = [child for one in named for child in one if child.tag == SVG]
    assert len(pictures) == len(tree.findall(f".//{SVG}"))
    assert named
    for element in tree.iter():
        for name in ("src", "href", "{http://www.w3.org/1999/xlink}href", "action", "data"):
            assert element.get(name) is None, f"{element.tag} {name}={element.get(name)}"
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|url\(|@import|<link", text)


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_fits_its_window_and_is_drawn_in_light_and_dark(reports, browser, tmp_path, kind):
    page = tmp_path / f"{kind}.html"
    text = (reports / f"{kind}.html").read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", WIDTH + "</body>"), encoding="utf-8")
    for width in (1280, 400):
        more = re.search(r'data-width="([^"]*)"', browser.document(page, size=(width, 900)))[1]
        assert int(more) <= 0, f"wider than the window of {width} by {more}"
    for scheme, (least, most) in {"light": (200, 255), "dark": (0, 60)}.items():
        picture = browser.picture(page, scheme)
        assert least <= brightness(picture) <= most and colours(picture) > 50
