"""The documents that are written from the tables."""

from house import tables

NOTE = ("<!-- Written by tools/docs from {source}; change that table and run `make docs`. -->\n")
GROUPS = {
    "C": "The C standard's own functions",
    "POSIX": "What POSIX adds",
    "GLIBC": "What glibc and its elders add",
    "ALIAS": "The names that glibc gives its own functions, for programs that call them",
    "CXX": "The operators of C++",
    "PRIM": "The same under names of our own, for programs that keep libc's malloc beside it",
}
UNITS = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]


def readable(value, unit):
    """A table's number as a person writes it: 33554432 bytes are 32 MiB."""
    if unit == "bytes" and value.isdigit() and value != "0":
        for size, name in UNITS:
            if int(value) >= size and int(value) % size == 0:
                return f"{int(value) // size} {name}"
    return f"{value} {unit}".strip()


def plain(text):
    """Text of a table cell in which brackets and bars are only themselves."""
    return text.replace("[", "\\[").replace("]", "\\]").replace("|", "\\|")


def allowed_range(option):
    low, high = (readable(option[bound], option["unit"]) for bound in ("minimum", "maximum"))
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


def options_document(tree):
    lines = [NOTE.format(source=tables.OPTIONS), "# Options\n", (
        "An option is set in the environment before the program starts, by itself or in a list:\n\n"
        "```\nPRIMALLOC_PURGE_DELAY=2s program\n"
        "PRIMALLOC_OPTIONS=purge_delay=2s,min_align=16 program\n"
        "primalloc run --option purge_delay=2s -- program\n```\n\n"
        "Sizes take K, M and G; times are milliseconds unless they end in s. A name that does not\n"
        "exist or a value out of range is reported in one line on standard error and left out.\n"),
        "| option | default | values | what it does |", "|---|---|---|---|"]
    for option in tables.options(tree):
        default, values = option_values(option)
        lines.append(f"| `{option['name']}` | {default} | {values} | {plain(option['sentence'])} |")
    return "\n".join(lines) + "\n"


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
    return {"docs/options.md": options_document(tree), "docs/symbols.md": symbols_document(tree)}
