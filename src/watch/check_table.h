/* check_table.h - what check.h knows of each block: where it is, who asked for it, who freed it.
 *
 * Records lie outside of the heap that they describe, where no overrun reaches them, and are found
 * by the block's address. Those of freed blocks stay while the block is in the quarantine, which is
 * a queue bounded by bytes. Lock: CHECKS, held by the caller of everything here. */
#ifndef PRIM_WATCH_CHECK_TABLE_H
#define PRIM_WATCH_CHECK_TABLE_H

#include "objects/watcher.h"

enum {
    CHECK_FRAMES = 10,
    QUARANTINE_SIZE = 16 << 20,     /* bytes of freed blocks that are kept */
    QUARANTINE_BLOCK_MAX = 2 << 20, /* greater ones are not */
};

struct check_stack {
    uint64_t frames[CHECK_FRAMES]; /* as stack.h marks them; 0 ends them */
};

struct check_record {
    struct check_record *next;  /* in the bucket, or in the list of unused records */
    struct check_record *newer; /* in the quarantine */
    uintptr_t block;
    size_t size;      /* asked for */
    size_t alignment; /* asked for; 0: none */
    size_t front;     /* bytes from where the plain block begins */
    uint8_t call;     /* enum call: that allocated, and that freed it */
    uint8_t freed_call;
    bool is_freed;
    bool is_in_heap; /* a first-class one */
    struct check_stack allocated;
    struct check_stack freed;
};

struct check_record *check_table_find(uintptr_t block);

/* A record for a block, which has none; NULL without memory. */
struct check_record *check_table_add(uintptr_t block);

/* Not for one in the quarantine. */
void check_table_remove(struct check_record *record);

/* Appends a freed block, or takes the oldest one off; NULL unless there is too much in it. */
void check_table_quarantine(struct check_record *record);
struct check_record *check_table_expired(void);

size_t check_table_count(void);

/* Calls the visitor with every record. */
void check_table_visit(void (*visitor)(struct check_record *record, void *context), void *context);

#endif
