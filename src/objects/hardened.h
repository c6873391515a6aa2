/* hardened.h - options.hardened: a heap that is hard to abuse, for a price (docs/hardening.md).
 *
 * The bins of a thread's cache stay empty, so each call of the program's comes to front_door.h, and
 * blocks up to MEDIUM_SIZE_MAX are served from here (hardened_door.c). For each class a thread has
 * arrays of free blocks, apart from the blocks themselves (hardened_bin.h). A block freed must be a
 * live one, which its byte tells (hardened_slab.h); its first bytes become zero, and must still be
 * so when it is handed out.
 *
 * What is found wrong is reported in one line, and ends the program unless hardened_go_on is set;
 * then the call does nothing.
 *
 * Arrays and quarantine belong to the thread; locks are those of hardened_slab.h. */
#ifndef PRIM_OBJECTS_HARDENED_H
#define PRIM_OBJECTS_HARDENED_H

#include "objects/hardened_bin.h"
#include "objects/thread_cache.h"
#include "settings/options.h"

PRIM_INLINE bool hardened_is_on(void) {
    return PRIM_UNLIKELY(options.hardened);
}

/* The calling thread's arrays: NULL if the mode is off, it has none yet, or somebody watches. */
PRIM_INLINE struct hardened_cache *hardened_here(void) {
    return thread_cache_visible->hardened;
}

/* Where there are arrays: any size, any pointer. Reached in a jump, by what the program called. */
void *hardened_malloc(size_t size, struct hardened_cache *own);
void hardened_free(void *block, struct hardened_cache *own);

/* A block of the class, or NULL without memory. The cache may be NULL. */
void *hardened_allocate(struct thread_cache *cache, unsigned object_class);

/* True if the pointer is dealt with: a block of a hardened slab, or one that leads into such a slab
 * or into a large block and is no block. Else it is another kind's, whose own free goes on; or
 * nobody's, which was reported. */
bool hardened_release(void *block);

/* Reports a pointer that is no live block; false if it leads into a hardened slab or a large
 * block. */
bool hardened_check(const char *call, const void *block);

/* The thread's blocks go back to their slabs. */
void hardened_flush(struct thread_cache *cache);

/* The cache, which may be NULL, is a new thread's, or that of a fork's child: which has all of its
 * parent's caches, and must not choose as that does, or as another child. */
PRIM_INLINE void hardened_take_over(struct thread_cache *cache) {
    if (cache && PRIM_UNLIKELY(cache->hardened != NULL)) {
        hardened_bins_seed(cache->hardened);
    }
}

/* Whatever is kept for later goes to the page heap. */
void hardened_trim(void);

#endif
