/* reserve.h - what a call gets that interrupted another one of its own thread: a signal handler's.
 *
 * While a thread is inside the slow door (thread_cache.h) its bins and what its locks protect are
 * half changed. A handler that allocates then gets memory that nothing else uses: a range of
 * address space, mapped when first needed, that is given out from its beginning and is empty again
 * when none of its blocks is left. What it frees is freed when the interrupted call is over.
 *
 * No locks: handlers of several threads may be here, and one within another. The address map says
 * 0 of these blocks, so who meets a foreign pointer asks here first. */
#ifndef PRIM_OBJECTS_RESERVE_H
#define PRIM_OBJECTS_RESERVE_H

#include "base/atomics.h"

extern PRIM_HIDDEN _Atomic(void *) reserve_deferred; /* (atomic: deferred) linked by first words */

/* NULL and ENOMEM where the range has no room for it. */
void *reserve_allocate(size_t size, size_t alignment);

/* 0 if it is no block of the reserve's. */
size_t reserve_size(const void *block);

/* One of the reserve's into the heap, or where the thread is inside still, into the reserve. */
void *reserve_move(void *block, size_t size);

/* Whether it is a block of the reserve's, which is free then. */
bool reserve_release(void *block);

/* Frees any block, one of another kind as soon as somebody leaves the slow door. What a watcher
 * gave out cannot wait, and is lost. */
void reserve_defer(void *block);

/* Frees what waits. */
void reserve_drain(void);

#endif
