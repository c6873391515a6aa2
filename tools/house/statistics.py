"""docs/statistics.md, from the table of figures."""

from house import tables

GROUPS = {
    "BALANCE": "The heap's address space: each byte is in exactly one of these",
    "HEAP": "In all",
    "COUNT": "Counts",
    "EVENT": "What happened so far",
    "CALL": "Calls, with `stats=full` only",
    "PROCESS": "The process, by the kernel",
}

HEAD = """# Statistics

Where the memory is, taken while the program runs: no thread is stopped, malloc and free are not
slowed down, and nothing has to be switched on. The same figures come as

- text for people: `prim_stats_print`, `malloc_stats`, `PRIMALLOC_SHOW_STATS=1` at exit;
- a struct: `prim_stats_get`, and by size class `prim_stats_classes` (in `primalloc.h`);
- JSON, XML and OpenMetrics: `prim_stats_write`; XML is what `malloc_info` writes;
- glibc's structs: `mallinfo2`, as far as it has room for them.

Names that end in `_bytes` are bytes, in `_ms` milliseconds, others numbers. A counter never falls,
a gauge may.

## What is exact, and when

While no thread is inside the library, every figure of the heap is exact. While threads work, each
is true of some moment during the call. What threads keep for themselves is read without asking
them, so blocks on their way between a thread and a slab may count as live or as cached; still the
parts add up to `mapped_bytes`, always.

`resident_bytes` is what the kernel should hold for the heap by these figures. The kernel's own
figure is less where the program did not touch what it holds (a block counts as live in whole) and
where freed memory was never touched or was asleep (it counts as dirty); it is more by at most
`huge_unused_bytes`. In the child of a fork, what other threads had cached counts as live.

With `stats=full` every call takes the slow path and is counted. A class then gets the verdict `ok`
if all that was allocated was freed, else `not all freed`. A `realloc` that moves a block between
classes counts as allocation and free; one that does not leaves `requested_bytes` as it is.
"""

CLASSES = """## By class

One row for each size class, and a last one for the blocks above 256 KiB and those that grow like
such, with `block_bytes` 0. Text, XML and OpenMetrics leave out classes never used.
"""

FORMS = """## JSON

One object, `primalloc-stats-1`. That name changes when a member changes its meaning or goes away;
new members may come without.

| member | type | what it is |
|---|---|---|
| `schema` | string | `"primalloc-stats-1"` |
| `version` | string | of the library |
| `pid`, `program` | number, string | the process |
| `calls_counted` | boolean | whether `stats=full` |
| `verdict` | string or null | `"ok"` or `"not all freed"`; null unless calls are counted |
| `figures` | object | a number for each figure above |
| `classes` | array | an object for each class: a number for each figure by class |

## OpenMetrics

Version 1.0. A figure is the family `primalloc_` and its name, one by class is `primalloc_class_`
and its name with the label `class`: the size in bytes, or `large`. Times are in seconds
(`primalloc_user_seconds_total`), and samples of counters end in `_total`."""


def _rows(figures):
    return ["| figure | kind | what it is |", "|---|---|---|",
            *(f"| `{row['name']}` | {row['kind'].lower()} | {row['sentence']} |"
              for row in figures), ""]


def statistics_document(tree, note):
    figures = tables.figures(tree)
    unknown = {row["group"] for row in figures} - set(GROUPS)
    if unknown:
        raise ValueError(f"{tables.FIGURES}: unknown group {', '.join(sorted(unknown))}")
    lines = [note.format(source=tables.FIGURES), HEAD]
    for group, title in GROUPS.items():
        lines += [f"## {title}\n", *_rows(row for row in figures if row["group"] == group)]
    lines += [CLASSES, *_rows(tables.figures(tree, "CLASS_FIGURE")), FORMS]
    return "\n".join(lines) + "\n"
