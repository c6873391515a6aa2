/* snapshot.h - where the memory is: all figures of figures.def, taken without stopping a thread.
 *
 * Locks are held for a class, a list or a sum at a time, never for the whole. So figures are exact
 * while no thread is inside the library; else each is true of some moment during the call, and the
 * parts of the balance still add up to the whole, because what cannot be told apart is rounded in
 * favour of live and large blocks, and of the free parts of heaps. */
#ifndef PRIM_WATCH_SNAPSHOT_H
#define PRIM_WATCH_SNAPSHOT_H

#include "base/print.h"
#include "watch/heap_rows.h"

struct snapshot {
#define FIGURE(name, group, kind, sentence) uint64_t name;
#define CLASS_FIGURE(name, group, kind, sentence)
#define HEAP_FIGURE(name, group, kind, sentence)
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
#undef HEAP_FIGURE
};

struct class_snapshot {
#define FIGURE(name, group, kind, sentence)
#define CLASS_FIGURE(name, group, kind, sentence) uint64_t name;
#define HEAP_FIGURE(name, group, kind, sentence)
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
#undef HEAP_FIGURE
};

enum figure_group {
    GROUP_BALANCE,
    GROUP_HEAP,
    GROUP_COUNT,
    GROUP_EVENT,
    GROUP_CALL,
    GROUP_PROCESS,
};

enum figure_kind { KIND_GAUGE, KIND_COUNTER };

/* A row of the table. */
struct figure {
    const char *name;
    const char *sentence;
    enum figure_group group;
    enum figure_kind kind;
};

enum {
    FIGURE_COUNT = sizeof(struct snapshot) / sizeof(uint64_t),
    CLASS_FIGURE_COUNT = sizeof(struct class_snapshot) / sizeof(uint64_t),
    HEAP_FIGURE_COUNT = sizeof(struct heap_snapshot) / sizeof(uint64_t),
    SNAPSHOT_CLASS_COUNT = CLASS_COUNT + 1, /* the size classes, and the large blocks */
};

/* Rows by their place in the table: those of the process, then of a class, then of a heap. */
enum { CLASS_FIGURES = FIGURE_COUNT, HEAP_FIGURES = CLASS_FIGURES + CLASS_FIGURE_COUNT };
struct figure figure_at(unsigned index);

/* Fills the snapshot with what we know ourselves, and SNAPSHOT_CLASS_COUNT rows by class and the
 * rows by heap, unless those are NULL. */
void snapshot_take(struct snapshot *snapshot, struct class_snapshot *classes,
                   struct heap_rows *heaps);

/* The same, and what the system knows: which pages are resident, with some calls for each piece of
 * a large heap, and the process's figures, from files of /proc. For callers that show all. */
void snapshot_take_all(struct snapshot *snapshot, struct class_snapshot *classes,
                       struct heap_rows *heaps);

/* One line: "primalloc pid=1 program=x allocations=.. frees=.. reallocations=.. foreign=..", the
 * three before the last with options.stats only, as nobody counts calls otherwise. */
void snapshot_print_calls(struct print *out);

#endif
