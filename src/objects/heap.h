/* heap.h - the life of the heap: set up at the first call, kept alive across fork. */
#ifndef PRIM_OBJECTS_HEAP_H
#define PRIM_OBJECTS_HEAP_H

#include "base/atomics.h"

extern PRIM_HIDDEN _Atomic bool heap_is_ready; /* (atomic: ready) */

PRIM_NOINLINE void heap_initialise(void);

/* Sets the heap up unless it is. Cheap enough for every slow path. */
PRIM_INLINE void heap_ensure(void) {
    if (PRIM_UNLIKELY(!load_acquire(&heap_is_ready))) { /* order pair: ready */
        heap_initialise();
    }
}

/* Reads the options from the environment as soon as libc has one, and applies them to what is
 * already there; true once that is done. */
bool heap_read_options(void);

/* Applies options that changed: to the calling thread at once, to others at their next refill or
 * overflow of a bin. */
void heap_apply_options(void);

/* Around fork, inside thread_cache_nest(): with all locks, or without where no other thread can
 * hold one. */
void heap_fork_prepare(bool with_locks);
void heap_fork_parent(bool with_locks);
void heap_fork_child(bool with_locks);

#endif
