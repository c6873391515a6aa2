"""What bench/curves.py kept in curves.json: figures, tables and pictures of it for the report."""

import statistics
from collections import Counter
from dataclasses import dataclass

from .allocators import AGAIN, OURS
from .environment import BenchError, read_json
from .experiments import ARRAY, TIMES
from .plots import line_plot
from .svg import plain
from .tables import Cell, Table

PAGE_BYTES = 4096
# Lines in the pictures, and goals.
MISSES_ASKED, THREAD_KIB_ASKED = 1.2, 16


def read_curves(path):
    """What bench/curves.py kept, or nothing."""
    curves = read_json(path) if path.exists() else {}
    if not isinstance(curves, dict) or not all(
            isinstance(one, dict) and {"machine", "quick", "found"} <= one.keys()
            for one in curves.values()):
        raise BenchError(f"{path} was not written by bench/curves.py")
    return curves


def curve_facts(curves):
    """When and where each experiment was measured: not in the same run as the rows."""
    return "; ".join(f"{name} {one['machine']['date']}, commit {one['machine']['commit']}, load "
                     f"before {one['machine']['load_before']}" + (", quick" if one["quick"] else "")
                     for name, one in curves.items())


@dataclass
class PagePart:
    """What pages given back cost a row: `part` of its time, at most."""
    row: str
    part: float
    mib: float
    calls: int
    wall_s: float


class Curves:
    """raw: {experiment: {machine, quick, found}}; what was not measured is empty."""

    def __init__(self, raw):
        self.raw = raw
        self.growth = self.found("growth")
        self.threads = self.found("threads")
        self.latency = self.found("latency")
        self.calls = self.found("calls")
        self.pages = self.found("pages")

    def found(self, name):
        return self.raw.get(name, {}).get("found", [])

    def on_cores(self, name):
        """How many cores an experiment had, for a sentence, where it is known."""
        cores = self.raw.get(name, {}).get("machine", {}).get("cores")
        return f" on {cores} cores" if cores else ""

    # ---- growth ----

    def lives(self, name):
        """{live: misses in an object's life: built, once replaced, dropped}."""
        return {one["live"]: sum(one[time] for time in TIMES) for one in self.growth
                if one["allocator"] == name}

    def life_ratios(self, name):
        bare = self.lives(ARRAY)
        return {live: misses / bare[live] for live, misses in self.lives(name).items()
                if live in bare}

    # ---- threads ----

    def by_threads(self, name, field):
        """{threads: median over the passes that have it}."""
        values = {}
        for one in self.threads:
            if one["allocator"] == name and one[field] is not None:
                values.setdefault(one["threads"], []).append(one[field])
        return {count: statistics.median(several) for count, several in sorted(values.items())}

    def flatness(self, name):
        times = self.by_threads(name, "cpu_ns").values()
        return max(times) / min(times) if times else None

    def thread_kib(self, name, field="working_kib"):
        """{threads: KiB a thread beyond the objects packed in arrays}, by the growth from one
        thread on: what a process needs once is no thread's."""
        own, bare = self.by_threads(name, field), self.by_threads(ARRAY, field)
        return {count: (own[count] - own[1] - bare[count] + bare[1]) / (count - 1)
                for count in own if count > 1 and count in bare and 1 in own and 1 in bare}

    # ---- latency ----

    def latency_medians(self, field, parity=None):
        values = {}
        for one in self.latency:
            if parity is None or one["pass"] % 2 == parity:
                values.setdefault(one["allocator"], []).append(one[field])
        return {name: statistics.median(several) for name, several in values.items()}

    def latency_passes_lost(self, name):
        """How many of the passes that somebody has an allocator lacks: there its program failed."""
        passes = Counter(one["allocator"] for one in self.latency)
        return max(passes.values(), default=0) - passes[name]

    def latency_ratios(self, field):
        """The best peer of the odd passes, and all allocators' ratios to it in the even ones."""
        even = self.latency_medians(field, 0)
        odd = {name: value for name, value in self.latency_medians(field, 1).items()
               if name not in (OURS, AGAIN) and name in even}
        if not odd:
            return None
        best = min(odd, key=odd.get)
        return best, {name: value / even[best] for name, value in even.items()}

    # ---- calls and pages ----

    def calls_of(self, name):
        return [one for one in self.calls if one["allocator"] == name]

    @property
    def counts_needed_again(self):
        return bool(self.pages) and any("needed_again_bytes" in one for one in self.pages["rows"])

    @property
    def pages_passes(self):
        """How often each row was counted: threads do not free and take by the same turns twice."""
        return max(Counter(one["row"] for one in self.pages["rows"]).values(), default=0)

    def page_parts(self):
        """[PagePart], the largest first; of several passes of a row the median. Without a count of
        what was needed again, all that was given back is taken for needed again: more than the
        truth."""
        if not self.pages:
            return []
        price_s = self.pages["page_price_us"] / 1e6
        rows = {}
        for one in self.pages["rows"]:
            given = one.get("needed_again_bytes", one["purged_bytes"])
            rows.setdefault(one["row"], []).append(
                PagePart(one["row"], given / PAGE_BYTES * price_s / one["wall_s"],
                         one["purged_bytes"] / (1 << 20), one["purge_calls"], one["wall_s"]))
        parts = [sorted(several, key=part_of)[len(several) // 2] for several in rows.values()]
        return sorted(parts, key=part_of, reverse=True)


def part_of(page_part):
    return page_part.part


def names_of(found):
    return list(dict.fromkeys(one["allocator"] for one in sorted(
        found, key=lambda one: (one["allocator"] != OURS, one["allocator"] != ARRAY))))


def growth_table(curves):
    table = Table("Growth: first-level data misses of an object",
                  "Counted by callgrind with a cache of 32 KiB. Life: built, once replaced, "
                  "dropped; in brackets the ratio to the same accesses without an allocator.",
                  ["live objects", "allocator", *TIMES, "life"], left=2)
    for one in sorted(curves.growth, key=lambda one: one["live"]):
        ratio = curves.life_ratios(one["allocator"]).get(one["live"])
        life = sum(one[time] for time in TIMES)
        table.rows.append([Cell(f"{one['live']:,}"), Cell(one["allocator"]),
                           *(Cell(f"{one[time]:.2f}") for time in TIMES),
                           Cell(f"{life:.2f} ({ratio:.2f})" if ratio else f"{life:.2f}")])
    return table


def threads_table(curves):
    names = names_of(curves.threads)
    table = Table("Threads: ns of processor time an operation, KiB a thread",
                  "Medians. KiB: beyond the same objects packed in arrays, all threads at work; in "
                  "brackets a second after all was freed.", ["threads", *names])
    counts = sorted({one["threads"] for one in curves.threads})
    extra = {name: (curves.thread_kib(name), curves.thread_kib(name, "idle_kib"))
             for name in names}
    for count in counts:
        cells = []
        for name in names:
            time = curves.by_threads(name, "cpu_ns").get(count)
            text = f"{time:.1f} ns" if time else "-"
            working, idle = (one.get(count) for one in extra[name])
            if working is not None and name != ARRAY:
                text += f", {working:.1f} KiB" + (f" ({idle:.1f})" if idle is not None else "")
            cells.append(Cell(text))
        table.rows.append([Cell(str(count)), *cells])
    return table


def latency_table(curves):
    fields = [f"{call}_{part}_ns" for call in ("malloc", "free")
              for part in ("p50", "p99", "p999", "p9999", "longest")]
    table = Table("Latency: ns of single calls with 8 threads",
                  "Medians over the passes, the clock's own time included; p9999: one call in ten "
                  "thousand takes longer. The longest are those during which a thread lost its "
                  "processor.", ["allocator", *(field.removesuffix("_ns").replace("_", " ")
                                                for field in fields)])
    medians = {field: curves.latency_medians(field) for field in fields}
    for name in names_of(curves.latency):
        table.rows.append([Cell(name), *(Cell(f"{medians[field][name]:,.0f}", "",
                                              medians[field][name]) for field in fields)])
    return table


def calls_table(curves):
    table = Table("Instructions of single calls up to 32 KiB",
                  "Counted by lackey, call by call; the kernel's are not among them.",
                  ["allocator", "scene", "call", "calls", "median", "99th percentile", "longest"],
                  left=3)
    for one in sorted(curves.calls, key=lambda one: (one["allocator"] != OURS, one["allocator"])):
        table.rows.append([Cell(one["allocator"]), Cell(one["scene"]), Cell(one["call"]),
                           *(Cell(f"{one[field]:,.0f}", "", one[field])
                             for field in ("count", "median", "p99", "longest"))])
    return table


def pages_table(curves):
    what = ("needed again within a second" if curves.counts_needed_again
            else "given back, as if all were needed again")
    price = curves.pages["page_price_us"] if curves.pages else 0
    table = Table("Pages given back to the system",
                  f"Part: pages {what}, at {price:.2f} µs each, which is what they cost here, of "
                  f"the row's time. Rows that gave nothing back are left out.",
                  ["row", "MiB given back", "system calls", "time, s", "part"])
    for one in curves.page_parts():
        if one.calls:
            table.rows.append([Cell(one.row), Cell(f"{one.mib:.1f}"), Cell(str(one.calls)),
                               Cell(f"{one.wall_s:.2f}"), Cell(f"{one.part:.2%}", "", one.part)])
    return table


def curve_tables(raw):
    curves = Curves(raw)
    tables = [growth_table(curves), threads_table(curves), latency_table(curves),
              calls_table(curves), pages_table(curves)]
    return [table for table in tables if table.rows]


def growth_plot(curves):
    counts = sorted({one["live"] for one in curves.growth})
    lines = {}
    for name in names_of(curves.growth):
        if name != ARRAY:
            ratios = curves.life_ratios(name)
            lines[name] = [ratios.get(count) for count in counts]
    return line_plot("Growth", [plain(count) for count in counts], "live objects", lines,
                     "misses / those without an allocator",
                     bound=(MISSES_ASKED, f"asked: {MISSES_ASKED}"))


def threads_plots(curves):
    names = [name for name in names_of(curves.threads) if name != AGAIN]
    counts = sorted({one["threads"] for one in curves.threads})
    labels = [str(count) for count in counts]
    times = {name: [curves.by_threads(name, "cpu_ns").get(count) for count in counts]
             for name in names}
    kib = {name: [curves.thread_kib(name).get(count) for count in counts]
           for name in names if name != ARRAY}
    return [line_plot("Threads: time", labels, "threads", times, "ns of CPU an operation"),
            line_plot("Threads: memory", labels, "threads", kib,
                      "KiB a thread beyond its objects", is_log=True,
                      bound=(THREAD_KIB_ASKED, f"asked: {THREAD_KIB_ASKED} KiB"))]


def latency_plot(curves):
    parts = ("p50", "p99", "p999", "p9999")
    labels = ("50 %", "99 %", "99.9 %", "99.99 %")
    names = [name for name in names_of(curves.latency) if name != AGAIN]
    lines = {name: [curves.latency_medians(f"malloc_{part}_ns").get(name) for part in parts]
             for name in names}
    return line_plot("Latency of malloc, 8 threads", labels, "of all calls", lines, "ns",
                     is_log=True)


def curve_plots(raw):
    """Those of what was measured."""
    curves = Curves(raw)
    plots = [growth_plot(curves)] if curves.growth else []
    plots += threads_plots(curves) if curves.threads else []
    return plots + ([latency_plot(curves)] if curves.latency else [])
