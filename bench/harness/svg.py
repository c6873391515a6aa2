"""SVG by hand: small pictures that follow the reader's light or dark theme.

Colours are CSS variables. In a page they are the page's (templates/page.html.j2 includes THEME); a
picture that stands alone brings the same ones with it.
"""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

from .allocators import OURS

LIGHT = {
    "ink": "#1d1f23", "faint": "#5f6570", "line": "#dfe2e7", "paper": "#ffffff",
    "wash": "#f5f6f8", "ours": "#d6215b", "good": "#dff3e5", "bad": "#fde6e6", "corner": "#d6215b",
    "c-primalloc": "#d6215b", "c-primalloc-again": "#ee8fac", "c-glibc": "#5b5f66",
    "c-mimalloc3": "#1f6fb4", "c-mimalloc2": "#6aa7d8", "c-jemalloc": "#2e8b57",
    "c-tcmalloc": "#c07f00", "c-gperftools": "#d9a93a", "c-snmalloc": "#7b52ab",
    "c-rpmalloc": "#00939b", "c-scudo": "#8c5a3c", "c-hardened": "#8f8f3c", "c-other": "#888888",
}
DARK = LIGHT | {
    "ink": "#e7e9ee", "faint": "#a0a7b4", "line": "#343944", "paper": "#1b1e24",
    "wash": "#13151a", "ours": "#ff6b98", "good": "#173a26", "bad": "#4a1f24", "corner": "#ff6b98",
    "c-primalloc": "#ff5c8d", "c-primalloc-again": "#b9577a", "c-glibc": "#b4b9c3",
    "c-mimalloc3": "#5aa9ec", "c-mimalloc2": "#9cc9ee", "c-jemalloc": "#55c088",
    "c-tcmalloc": "#e8a832", "c-gperftools": "#f0cd7e", "c-snmalloc": "#b08fe0",
    "c-rpmalloc": "#3cc4cc", "c-scudo": "#c68f6d", "c-hardened": "#c2c26a", "c-other": "#9aa0a8",
}


def declarations(colours):
    return "".join(f"--{name}:{value};" for name, value in colours.items())


THEME = (f":root{{color-scheme:light dark;{declarations(LIGHT)}}}"
         f"@media (prefers-color-scheme:dark){{:root{{{declarations(DARK)}}}}}")


def has_colour(name):
    """Whether it is an allocator that we know: what else is drawn is dashed and grey."""
    return f"c-{name}" in LIGHT


def colour(name):
    known = f"c-{name}"
    return f"var(--{known if has_colour(name) else 'c-other'})"


def name_colour(name):
    """Of a name beside what has its colour: many colours of dots are too pale for letters."""
    return colour(name) if name == OURS else "var(--ink)"


@dataclass
class Scale:
    """Numbers from low to high on pixels from start to end, by their logarithm or not."""
    low: float
    high: float
    start: float
    end: float
    is_log: bool = True

    def __call__(self, value):
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, most=9):
        """Plain numbers within the scale, as many as there is room for."""
        if not self.is_log:
            step = nice_step((self.high - self.low) / most)
            first = math.ceil(self.low / step)
            return [step * n for n in range(first, int(self.high / step + 1e-9) + 1)]
        for steps in ((1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
                      (1, 1.2, 1.5, 2, 3, 4, 5, 7), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
            found = [digit * 10 ** power for power in range(-4, 13) for digit in steps
                     if self.low * 0.999 <= digit * 10 ** power <= self.high * 1.001]
            if len(found) <= most:
                return found
        return found[::math.ceil(len(found) / most)]


def nice_step(least):
    power = 10 ** math.floor(math.log10(least))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= least * 0.999)


def plain(number):
    """0.85, 120, 20 k: a tick's number."""
    for unit, divisor in ((" M", 1e6), (" k", 1e3)):
        if number >= divisor:
            return f"{number / divisor:.3g}{unit}"
    return f"{number:.3g}"


class Picture:
    """Elements in the order in which they are drawn."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.elements = []

    def add(self, element):
        self.elements.append(element)

    def text(self, x, y, words, anchor="start", fill="var(--ink)", size=12, weight=400, turn=0):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                 f'font-weight="{weight}" style="fill:{fill}"{turned}>{escape(words)}</text>')

    def line(self, x1, y1, x2, y2, stroke="var(--line)", width=1.0, dash=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                 f'stroke-width="{width}" style="stroke:{stroke}"{dashed}/>')

    def rect(self, x, y, width, height, fill, opacity=1.0, radius=0.0, hint=""):
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
                 f'height="{max(height, 0):.1f}" rx="{radius}" opacity="{opacity}" '
                 f'style="fill:{fill}">{hint_text(hint)}</rect>')

    def dot(self, x, y, radius, fill, opacity=1.0, hint=""):
        self.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" opacity="{opacity}" '
                 f'style="fill:{fill}">{hint_text(hint)}</circle>')

    def path(self, points, stroke, width=1.5, dash=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        steps = " ".join(f"{'L' if n else 'M'}{x:.1f} {y:.1f}" for n, (x, y) in enumerate(points))
        self.add(f'<path d="{steps}" fill="none" stroke-width="{width}" '
                 f'stroke-linejoin="round" style="stroke:{stroke}"{dashed}/>')

    def svg(self, stands_alone=False):
        own = (f'<style>{THEME}</style><rect width="100%" height="100%" rx="10" '
               f'style="fill:var(--paper)"/>' if stands_alone else "")
        return (f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
                f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" font-family="system-ui, -apple-system, \'Segoe UI\', '
                f'Roboto, sans-serif"><title>{escape(self.title)}</title>{own}'
                + "\n".join(self.elements) + "</svg>\n")


def hint_text(hint):
    return f"<title>{escape(hint)}</title>" if hint else ""


@dataclass
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other):
        return (self.left < other.right and other.left < self.right
                and self.top < other.bottom and other.top < self.bottom)


def text_width(words, size=12):
    return 0.56 * size * len(words)


def place_labels(points, size=12):
    """[(x, y, anchor)] of labels for (x, y, words), each beside its dot where nothing is yet; the
    first points choose first."""
    dots = [Box(x - 6, y - 6, x + 6, y + 6) for x, y, _ in points]
    taken, places = [], []
    for index, (x, y, words) in enumerate(points):
        width = text_width(words, size)
        others = dots[:index] + dots[index + 1:] + taken
        choices = [(x + dx, y + dy, anchor)
                   for far in (0, 6, 13, 21) for dx, dy, anchor in (
                       (13, 4, "start"), (7, -8 - far, "start"), (7, 16 + far, "start"),
                       (-13, 4, "end"), (-7, -8 - far, "end"), (-7, 16 + far, "end"),
                       (0, -10 - far, "middle"), (0, 20 + far, "middle"))]
        shift = {"start": 0.0, "middle": 0.5, "end": 1.0}
        boxes = [Box(at - shift[anchor] * width, height - size, at + (1 - shift[anchor]) * width,
                     height + 3) for at, height, anchor in choices]
        free = next((number for number, box in enumerate(boxes)
                     if not any(box.meets(one) for one in others)), 0)
        taken.append(boxes[free])
        places.append(choices[free])
    return places
