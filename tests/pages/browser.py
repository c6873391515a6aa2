"""A page in headless Chromium: what becomes of its document, what it says on its console, and how
it looks."""

import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from PIL import Image

CONSOLE = re.compile(r"CONSOLE[^\]]*\] (.*)")
SCHEMES = {"dark": 0, "light": 1}


class Browser:
    def __init__(self, directory: pathlib.Path):
        self.program = shutil.which("chromium")
        if self.program is None:
            pytest.skip("chromium is not installed (tests/apt-packages.txt)")
        self.directory = directory

    def document(self, page, scheme="light", size=(1280, 900)):
        """The document after its scripts ran."""
        return self._run(page, scheme, size, "--dump-dom")

    def picture(self, page, scheme="light", size=(1280, 900)) -> Image.Image:
        target = self.directory / f"{pathlib.Path(page).stem}-{scheme}-{size[0]}.png"
        self._run(page, scheme, size, f"--screenshot={target}")
        return Image.open(target).convert("RGB")

    def _run(self, page, scheme, size, *options):
        with tempfile.TemporaryDirectory(prefix="chromium-") as home:
            command = [
                self.program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={home}",
                f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
                f"--window-size={size[0]},{size[1]}", "--enable-logging=stderr", *options,
                pathlib.Path(page).as_uri(),
            ]
            done = subprocess.run(command, text=True, timeout=600, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stderr
        said = CONSOLE.findall(done.stderr)
        assert not said, f"{page} says on its console: {said}"
        return done.stdout


def colours(picture: Image.Image) -> int:
    """How many different colours a picture has; a blank one has one."""
    return len(picture.getcolors(maxcolors=1 << 24))


def brightness(picture: Image.Image) -> float:
    """From 0 to 255, of the page's ground in its upper left corner."""
    return sum(picture.getpixel((3, 3))) / 3
