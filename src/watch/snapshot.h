/* snapshot.h - where the memory is: all figures of figures.def, taken without stopping a thread.
 *
 * Locks are held for a class, a list or a sum at a time, never for the whole. So figures are exact
 * while no thread is inside the library; else each is true of some moment during the call, and the
 * parts of the balance still add up to the whole, because what cannot be told apart is rounded in
 * favour of live and large blocks. */
#ifndef PRIM_WATCH_SNAPSHOT_H
#define PRIM_WATCH_SNAPSHOT_H

#include "base/print.h"
#include "objects/size_class.h"

struct snapshot {
#define FIGURE(name, group, kind, sentence) uint64_t name;
#define CLASS_FIGURE(name, group, kind, sentence)
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
};

struct class_snapshot {
#define FIGURE(name, group, kind, sentence)
#define CLASS_FIGURE(name, group, kind, sentence) uint64_t name;
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
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

/* A row of the table; as in option_table.h, without pointers. */
struct figure {
    char name[24];
    char sentence[72];
    uint8_t group; /* enum figure_group */
    uint8_t kind;  /* enum figure_kind */
};

enum {
    FIGURE_COUNT = sizeof(struct snapshot) / sizeof(uint64_t),
    CLASS_FIGURE_COUNT = sizeof(struct class_snapshot) / sizeof(uint64_t),
    SNAPSHOT_CLASS_COUNT = CLASS_COUNT + 1, /* the size classes, and the large blocks */
};

extern PRIM_HIDDEN const struct figure figures[FIGURE_COUNT];
extern PRIM_HIDDEN const struct figure class_figures[CLASS_FIGURE_COUNT];

/* Fills the snapshot, and SNAPSHOT_CLASS_COUNT rows by class unless that is NULL. */
void snapshot_take(struct snapshot *snapshot, struct class_snapshot *classes);

/* One line: "primalloc pid=1 program=x allocations=.. frees=.. reallocations=..". */
void snapshot_print_calls(struct print *out);

#endif
