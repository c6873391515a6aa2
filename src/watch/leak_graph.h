/* leak_graph.h - which blocks are pointed to: conservative, by address.
 *
 * Every aligned word of what is scanned that is an address inside a block, or behind its last byte
 * where it has none, counts as a pointer to it. Blocks are sorted by address. */
#ifndef PRIM_WATCH_LEAK_GRAPH_H
#define PRIM_WATCH_LEAK_GRAPH_H

#include "watch/live_table.h"

enum leak_state {
    LEAK_DIRECT,    /* nobody points to it: what all are at first */
    LEAK_INDIRECT,  /* only leaked blocks do */
    LEAK_INNER,     /* somebody does, but not to its beginning, and that does not count */
    LEAK_IGNORED,   /* the program said so, or such a block points to it */
    LEAK_REACHABLE, /* from globals, stacks, registers or thread-local data */
};

struct leak_block {
    uintptr_t address;
    size_t size;
    struct site *site;
    uint32_t next;   /* of those still to be scanned */
    uint32_t holder; /* INDIRECT: the direct one that leads here */
    uint8_t state;   /* enum leak_state */
    bool is_ignored; /* by the program's wish */
};

struct leak_graph {
    struct leak_block *blocks;
    size_t count;
    size_t capacity;
    uint32_t pending;   /* the first one still to be scanned */
    bool is_strict;     /* only pointers to the beginning count */
    const char *lacks;  /* why there is no verdict; NULL: for want of memory, if there is none */
    uintptr_t stranger; /* the last of these still to be scanned, and through born others */
    struct live_table strangers; /* blocks that are not recorded and were met */
};

/* Copies and sorts the recorded blocks; is_strict stays as it was. False without memory. */
bool leak_graph_make(struct leak_graph *graph, const struct live_table *blocks);
void leak_graph_end(struct leak_graph *graph);

/* Follows all pointers in [start, end), and those in what they lead to: it all gets this state,
 * unless it has one that is more. */
void leak_graph_follow(struct leak_graph *graph, uintptr_t start, uintptr_t end,
                       enum leak_state state);

/* The same from one block on, which gets the state itself. */
void leak_graph_follow_block(struct leak_graph *graph, struct leak_block *block,
                             enum leak_state state);

/* What is left leaks: tells direct from indirect, and who holds the latter. */
void leak_graph_divide(struct leak_graph *graph);

#endif
