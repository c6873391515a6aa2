/* hardened.h - options.hardened: a heap that is hard to abuse, for a price (docs/hardening.md).
 *
 * The visible cache is the empty one, so each call of the program's comes through the slow door,
 * and blocks up to MEDIUM_SIZE_MAX are served from here: each thread has arrays of free blocks,
 * apart from the blocks themselves, and takes one of them by a throw. A block freed is looked up in
 * its slab's descriptor (hardened_slab.h), which knows whether it is a live block that begins here;
 * it is filled with zeros, and waits in the thread's quarantine until enough others have come. When
 * it is handed out again its first words must still be zero.
 *
 * What is found wrong is reported in one line, and ends the program unless hardened_go_on is set;
 * then the call does nothing.
 *
 * The arrays and the quarantine belong to the thread; locks are those of hardened_slab.h. */
#ifndef PRIM_OBJECTS_HARDENED_H
#define PRIM_OBJECTS_HARDENED_H

#include "objects/thread_cache.h"
#include "settings/options.h"

PRIM_INLINE bool hardened_is_on(void) {
    return PRIM_UNLIKELY(options.hardened);
}

/* A block of the class, or NULL without memory. The cache may be NULL. */
void *hardened_allocate(struct thread_cache *cache, unsigned object_class);

/* Whether the pointer is dealt with: a block of a hardened slab, or no block at all. Else it is of
 * another kind, whose own free goes on with it; its contents are gone already. */
bool hardened_release(struct thread_cache *cache, void *block);

/* Reports a pointer that is no live block; false if it is to be treated as foreign. */
bool hardened_check(const char *call, const void *block);

/* The thread's blocks go back to their slabs. */
void hardened_flush(struct thread_cache *cache);

#endif
