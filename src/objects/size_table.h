/* size_table.h - which bin of its cache a thread's malloc of a small size pops from.
 *
 * One table for all threads, which is written while they read it: whatever of it one reads when, it
 * finds a bin of blocks that are large enough. Until the heap is set up, it is bin 0, which is
 * always empty.
 *
 * Every class in use costs a page at least, and most processes are tiny. So a process is young to
 * begin with: the table rounds sizes up to powers of two. The first collection of a thread's cache,
 * after some dozens of slow events, ends that, or a second thread.
 *
 * While allocations are sampled, it names second bins (thread_sampler.h). A thread that finds its
 * own empty learns at the slow door that it is to sample.
 *
 * Locks: what writes is called with CACHES held, but for the first time, when nobody reads yet. */
#ifndef PRIM_OBJECTS_SIZE_TABLE_H
#define PRIM_OBJECTS_SIZE_TABLE_H

#include "base/atomics.h"
#include "objects/size_class.h"

extern PRIM_HIDDEN _Atomic uint8_t size_table_bins[SMALL_TABLE_SIZE]; /* (atomic: bin) */
extern PRIM_HIDDEN _Atomic bool size_table_is_young;                  /* (atomic: hint) */

/* Writes it anew, by the options and the users of the sampler as they are now. */
void size_table_fill(void);

/* The process is no longer young. */
void size_table_age(void);

PRIM_INLINE unsigned size_table_bin(size_t size) {
    return load_relaxed(&size_table_bins[size]);
}

#endif
