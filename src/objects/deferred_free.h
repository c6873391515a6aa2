/* deferred_free.h - a function of the program's that frees a little now and then.
 *
 * A program that frees large structures lazily keeps them in a list of its own and takes a portion
 * from it whenever it is called: from the slow path of allocation, where no lock of ours is held,
 * and, being forced, when memory runs out. */
#ifndef PRIM_OBJECTS_DEFERRED_FREE_H
#define PRIM_OBJECTS_DEFERRED_FREE_H

#include "base/atomics.h"

typedef bool deferred_free(bool is_forced, uint64_t heartbeat, void *context);

/* (atomic: hint) Written under WATCHERS, as its context is. */
extern PRIM_HIDDEN _Atomic(deferred_free *) deferred_free_function;

/* NULL: none. */
void deferred_free_set(deferred_free *function, void *context);

/* What deferred_free_beat does if there is a function. */
bool deferred_free_call(bool is_forced);

/* From inside, with no lock held: lets the function free something; returns what it does, false if
 * there is none or the calling thread is inside it or past its destructors. Keeps errno. */
PRIM_INLINE bool deferred_free_beat(bool is_forced) {
    return PRIM_UNLIKELY(load_relaxed(&deferred_free_function) != NULL) &&
           deferred_free_call(is_forced);
}

#endif
