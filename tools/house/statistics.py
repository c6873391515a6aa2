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

- text for people: `prim_stats_print`, `malloc_stats`, `PRIMALLOC_SHOW_STATS=1` at exit (not of a
  program that has closed standard error by then, as those of the GNU coreutils have);
- structs: `prim_stats_get`, by size class `prim_stats_classes`, of one first-class heap
  `prim_heap_stats_get` (in `primalloc.h`);
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
classes counts as allocation and free; one that does not leaves `requested_bytes` as it is. Blocks
of [guarded sampling](hardening.md#guarded-sampling) are in no figure, and their calls are not
counted.

## What a call takes

`mallinfo2` and `prim_stats_classes` tell what the library knows itself: some 6 µs, 15 with 64
threads. The others also ask the kernel which pages are resident and read two files of `/proc`: 30
µs in a small process, a millisecond where 100,000 free pieces lie about. What a process read of its
own in `/proc` the kernel forgets when its parent waits for it, which on a busy machine can take
long.

## What others call it

| elsewhere | here |
|---|---|
| reserved | `mapped_bytes` and `metadata_bytes`; address space is kept, so this is the peak |
| committed, peak | `held_bytes`, `held_peak_bytes` |
| reset | nothing: pages that go back go at once (`purged_bytes`), none is only offered |
| abandoned | nothing: no thread owns a slab, and what a thread that ends had is everybody's |
| spans, segments | `spans`, `spans_peak`, `spans_taken`; freed are those taken less those in use |
| pages, bins | `slabs`, `slabs_peak`, `slabs_made` |
| threads | `threads`, `threads_peak`, `threads_seen` |
| searches | `searches` |
| a class's current, total, freed, peak | `live_blocks`, `allocations`, `frees`, `peak_blocks` |

What a class's blocks took of the heap at most, `peak_bytes`, and its slabs are known always; how
many blocks came and went, and the most at a time, with `stats=full` only.
"""

CLASSES = """## By class

One row for each size class, and a last one for the blocks above 256 KiB and those that grow like
such, with `block_bytes` 0. The classes above 256 KiB serve programs that leave such blocks
untouched inside. Text, XML and OpenMetrics leave out classes never used.
"""

HEAPS = """## By heap

One row for each first-class heap of `primalloc.h`, exact, whether calls are counted or not. Its
verdict is `ok` if all its blocks are freed. A heap's kind is `heap`; `deleted` when only its last
blocks keep it; `tag` for what `prim_tag_push` collects; `internal` for what the library needs for
itself. Blocks in lent memory are in `lent_bytes` and in no other figure of the process. In names,
what is not printable ASCII or has a meaning in one of the forms is written as in a URL: `%c3`.
"""

FORMS = """## JSON

One object, `primalloc-stats-2`. That name changes when a member changes its meaning or goes away;
new members may come without.

| member | type | what it is |
|---|---|---|
| `schema` | string | `"primalloc-stats-2"` |
| `version` | string | of the library |
| `pid`, `program` | number, string | the process |
| `calls_counted` | boolean | whether `stats=full` |
| `verdict` | string or null | `"ok"` or `"not all freed"`; null unless calls are counted |
| `figures` | object | a number for each figure above |
| `classes` | array | an object for each class: a number for each figure by class |
| `heaps` | array | an object for each heap: strings `kind`, `name`, `address` and `verdict`, and \
a number for each figure by heap |

## OpenMetrics

Version 1.0. A figure is the family `primalloc_` and its name, one by class is `primalloc_class_`
and its name with the label `class`: the size in bytes, or `large`. Times are in seconds
(`primalloc_user_seconds_total`), and samples of counters end in `_total`. Heaps that have a name
(`prim_heap_set_name`) and tags are in families `primalloc_named_heap_`, with the labels `kind`,
`name` and, but for tags, `address`; others would be a new series each, and are in the sums only."""


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
    lines += [CLASSES, *_rows(tables.figures(tree, "CLASS_FIGURE"))]
    lines += [HEAPS, *_rows(tables.figures(tree, "HEAP_FIGURE")), FORMS]
    return "\n".join(lines) + "\n"
