/* heap_rows.h - the figures of each first-class heap and tag, and their sums.
 *
 * The list of heaps is locked while they are looked at, each heap for its own figures: nobody waits
 * but who makes or ends a heap. */
#ifndef PRIM_WATCH_HEAP_ROWS_H
#define PRIM_WATCH_HEAP_ROWS_H

#include "objects/arena.h"

struct heap_snapshot {
#define FIGURE(name, group, kind, sentence)
#define CLASS_FIGURE(name, group, kind, sentence)
#define HEAP_FIGURE(name, group, kind, sentence) uint64_t name;
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
#undef HEAP_FIGURE
};

struct heap_row {
    char name[ARENA_NAME_SIZE];
    const char *kind;  /* "heap", "deleted", "tag" or "internal" */
    uintptr_t address; /* of the arena: what the program knows its heap by */
    struct heap_snapshot figures;
};

struct heap_rows {
    struct heap_row *rows; /* NULL: only the sums are asked for */
    size_t room;           /* for so many rows */
    size_t row_count;      /* written */
    size_t heap_count;     /* of the program: heaps and tags */
    size_t live_blocks;
    size_t live_bytes;      /* in our address space */
    size_t lent_bytes;      /* live as well, in lent memory */
    size_t untouched_bytes; /* pages of areas that nobody touched yet */
};

/* How many rows there are just now. */
size_t heap_rows_count(void);

/* Adds the sums up and fills as many rows as there is room for. */
void heap_rows_take(struct heap_rows *rows);

struct heap_row heap_row_of(struct arena *arena);

#endif
