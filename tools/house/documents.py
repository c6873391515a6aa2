"""The documents that are written from the tables."""

from house import tables
from house.manual import manual_pages
from house.reference import reference_documents
from house.statistics import statistics_document
from house.traps import TRAPS, traps_table

COMPATIBILITY = "docs/compatibility.md"
NOTE = ("<!-- Written by tools/docs from {source}; change it there and run `make docs`. -->\n")
GROUPS = {
    "C": "The C standard's own functions",
    "POSIX": "What POSIX adds",
    "GLIBC": "What glibc and its elders add",
    "ALIAS": "The names that glibc gives its own functions, for programs that call them",
    "CXX": "The operators of C++",
    "LINUX": "What stands before a function of Linux, and goes on to it",
    "START": "What stands before a function of libc, and goes on to it",
    "PRIM": "The same under names of our own, for programs that keep libc's malloc beside it",
}
UNITS = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
TIMES = [(60 * 1000, "min"), (1000, "s")]


def readable(value, unit):
    """A table's number as a person writes it: 33554432 bytes are 32 MiB, 2000 ms are 2 s."""
    for size, name in {"bytes": UNITS, "ms": TIMES}.get(unit, []):
        if value != "0" and int(value) % size == 0:
            return f"{int(value) // size} {name}"
    return f"{value} {'byte' if (value, unit) == ('1', 'bytes') else unit}".strip()


def plain(text):
    """Text of a table cell in which brackets and bars are only themselves."""
    return text.replace("[", "\\[").replace("]", "\\]").replace("|", "\\|")


def allowed_range(option):
    low, high = (readable(option[bound], option["unit"]) for bound in ("minimum", "maximum"))
    if option["minimum"] == "0" or low.split()[1:] == high.split()[1:]:
        low = low.split()[0]
    return f"{low} to {high}"


def option_values(option):
    """(default, allowed values) as the document shows them."""
    kind, unit = option["type"], option["unit"]
    if kind == "BOOL":
        return option["default"], "0 or 1"
    if kind == "TEXT":
        return "not set", unit
    if kind == "CHOICE":
        words = unit.split("|")
        return f"`{words[int(option['default'])]}`", ", ".join(f"`{word}`" for word in words)
    if kind == "AUTO_SIZE":
        return "`auto`", f"`auto`, or {allowed_range(option)}"
    return readable(option["default"], unit), allowed_range(option)


def knob_name(knob):
    return f"`glibc.malloc.{knob['name']}`"


def knobs_section(tree):
    """Where each of glibc's settings is given, and which option it sets."""
    lines = ["\n## What glibc's malloc understands\n", (
        "Programs tuned for glibc keep their tuning: its environment variables, its tunables and\n"
        "`mallopt` set our options. A call of `mallopt` overrides an option's own variable\n"
        "(`PRIMALLOC_SHARDS`), that the list `PRIMALLOC_OPTIONS`, that `GLIBC_TUNABLES`, and that\n"
        "glibc's variables.\n\n"
        "Numbers are read as glibc reads them (-1 is the greatest, 0x10 is 16, 010 is 8) and may\n"
        "end in K, M, G or T, which glibc does not know. What is malformed or out of range is\n"
        "ignored, as in glibc, and reported with `verbose=1` only: it may be meant for another\n"
        "malloc. What each does is in [compatibility](compatibility.md#tuning).\n"),
        "| tunable | variable | mallopt | option |", "|---|---|---|---|"]
    options = {"SETS": "`{}`", "CHECK": "`check`", "HUGETLB": "`thp`, `large_os_pages`",
               "NOTHING": "none"}
    for knob in tables.knobs(tree):
        cells = [knob_name(knob), *(f"`{knob[key]}`" if knob[key] else ""
                                    for key in ("environment", "parameter")),
                 options[knob["action"]].format(knob["option"])]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def between_marks(text, name, lines):
    """The page with these lines between the marks of that name."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{COMPATIBILITY}: needs {begin} and {end}, once each")
    inner = "".join(f"{line}\n" for line in [begin, *lines])
    return text[:text.index(begin)] + inner + text[text.index(end):]


def compatibility_document(tree):
    """The handwritten page, with the tables of knobs and of traps between their marks."""
    lines = ["| setting | what it does here |", "|---|---|"]
    lines += [f"| {knob_name(knob)} | {plain(knob['sentence'])} |" for knob in tables.knobs(tree)]
    text = between_marks(tree.read(COMPATIBILITY), "knobs", lines)
    return between_marks(text, "traps", traps_table(tree)) if tree.exists(TRAPS) else text


def options_document(tree):
    lines = [NOTE.format(source=f"{tables.OPTIONS} and {tables.KNOBS}"), "# Options\n", (
        "An option is set in the environment before the program starts, by itself or, where its\n"
        "value has no comma, in a list:\n\n"
        "```\nPRIMALLOC_PURGE_DELAY=2s program\n"
        "PRIMALLOC_OPTIONS=purge_delay=2s,min_align=16 program\n"
        "primalloc run --option purge_delay=2s -- program\n```\n\n"
        "Sizes take K, M, G and T (powers of 1024; KiB and KB mean the same), times ms, s and\n"
        "min. Small and capital letters are the same in names, words and units. What is 0 or 1\n"
        "takes off and on, no and yes, too, and its name alone switches it on in a list. A name\n"
        "that does not exist or a value that an option does not take is reported in one line on\n"
        "standard error and left out. `PRIMALLOC_OPTIONS=help` has a program on primalloc\n"
        "print this table (`primalloc run --option help -- true`), `PRIMALLOC_VERBOSE=1` what is\n"
        "set and where. Programs with raised rights (setuid, setgid, file capabilities) read none\n"
        "of it.\n\n"
        "A program reads all with `prim_option_get` and `prim_option_list` of primalloc.h; those\n"
        "that the table says can change, `prim_option_set` sets while threads run.\n"),
        "| option | default | values | changes | what it does |", "|---|---|---|---|---|"]
    for option in tables.options(tree):
        default, values = option_values(option)
        changes = {"START": "no", "ANY_TIME": "yes"}[option["when"]]
        lines.append(f"| `{option['name']}` | {default} | {values} | {changes} "
                     f"| {plain(option['sentence'])} |")
    return "\n".join(lines + knobs_section(tree)) + "\n"


def symbols_document(tree):
    exports = tables.exports(tree)
    lines = [NOTE.format(source=tables.EXPORTS), "# Exported symbols\n", (
        f"The shared library exports these {len(exports)} symbols and no other. The prefixed\n"
        "archive defines the last group only.")]
    for group, title in GROUPS.items():
        lines += [f"\n## {title}\n", "| symbol | source |", "|---|---|"]
        lines += [f"| `{export['symbol']}` | {plain(export['source'])} |"
                  for export in exports if export["group"] == group]
    unknown = {export["group"] for export in exports} - set(GROUPS)
    if unknown:
        raise ValueError(f"{tables.EXPORTS}: unknown group {', '.join(sorted(unknown))}")
    return "\n".join(lines) + "\n"


def render_all(tree):
    """Every generated document: path and text."""
    return {"docs/options.md": options_document(tree), "docs/symbols.md": symbols_document(tree),
            "docs/statistics.md": statistics_document(tree, NOTE),
            COMPATIBILITY: compatibility_document(tree),
            **reference_documents(tree), **manual_pages(tree)}
