/* live_table.h - the sampled blocks that the program holds, found by address.
 *
 * Open addressing; a removal moves what follows into the gap, so no marks are left behind. Under
 * the lock PROFILE. */
#ifndef PRIM_WATCH_LIVE_TABLE_H
#define PRIM_WATCH_LIVE_TABLE_H

#include "base/compiler.h"

struct site;

struct live_block {
    uintptr_t address; /* 0: an empty place */
    struct site *site;
    size_t size;     /* that was asked for */
    double weight;   /* how many blocks it stands for */
    uint64_t born;   /* ticks */
    bool is_ignored; /* by who looks for leaks */
    bool is_coarse;  /* stands for more than one would by the interval that was asked for */
};

struct live_table {
    struct live_block *places;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

/* Replaces what was there under this address; false without memory. */
bool live_table_put(struct live_table *table, const struct live_block *block);

/* The same for a table of numbers, which are the sizes. */
bool live_table_put_number(struct live_table *table, uintptr_t address, size_t number);

/* Takes an entry out; false if there is none. */
bool live_table_take(struct live_table *table, uintptr_t address, struct live_block *block);

/* The entry of an address, or NULL; valid until the next change. */
struct live_block *live_table_find(const struct live_table *table, uintptr_t address);

void live_table_empty(struct live_table *table);

#endif
