/* call_counts.h - options.stats: calls and requested bytes by class.
 *
 * Counted behind the slow door only. Threads share a few sets of counters, so that none waits for
 * another's cache line and none takes its counts along when it ends; only for the peak, each class
 * has one word that all share. Large blocks (large.h) are of CLASS_LARGE. */
#ifndef PRIM_OBJECTS_CALL_COUNTS_H
#define PRIM_OBJECTS_CALL_COUNTS_H

#include "base/compiler.h"

struct call_counts {
    uint64_t allocations;
    uint64_t frees;
    uint64_t requested_bytes; /* of these allocations */
    uint64_t peak;            /* most blocks that were allocated and not freed at a time */
};

void call_counts_allocation(unsigned object_class, size_t requested_bytes);
void call_counts_frees(unsigned object_class, size_t count);
void call_counts_reallocation(void);

struct call_counts call_counts_of(unsigned object_class);
uint64_t call_counts_reallocations(void);

#endif
