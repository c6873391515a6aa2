"""The picture of a page in docs/tool.md: tests/pages/picture.py docs/images/profile-page.png

A Python program's memory, as `primalloc profile --html` draws it; the upper part of the page,
light, in as few colours as it needs."""

import os
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image

from browser import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZE = (1120, 1400)
SCALE = 0.75
COLOURS = 96
PROGRAM = '''
import json, re, xml.dom.minidom

cache = {}
for n in range(40):
    rows = [{"id": i, "name": f"n{i}", "tags": [f"a{i}", "b"]} for i in range(300 + 40 * n)]
    for row in json.loads(json.dumps(rows)):
        cache.setdefault(row["name"][:3], []).append(row)
    xml.dom.minidom.parseString("<a>" + "<b c='1'>x</b>" * 500 + "</a>")
    re.findall(r"\\w+", "some words " * 5000)
'''


def main():
    target = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "service.py").write_text(PROGRAM)
        environment = os.environ | {"PYTHONMALLOC": "malloc",
                                    "PRIMALLOC_LIBRARY": str(ROOT / "build/lib/libprimalloc.so")}
        subprocess.run([ROOT / "build/bin/primalloc", "profile", "--rate=16K", "--html=page.html",
                        "--", "/usr/bin/python3", "service.py"], cwd=folder, env=environment,
                       check=True, stderr=subprocess.DEVNULL)
        picture = Browser(folder).picture(folder / "page.html", "light", SIZE)
    small = picture.resize([round(side * SCALE) for side in SIZE], Image.LANCZOS)
    small.quantize(COLOURS).save(target, optimize=True)
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
