/* deferred_free.c - see deferred_free.h. */
#include "objects/deferred_free.h"

#include <errno.h>

#include "objects/thread_cache.h"
#include "objects/watcher.h"

/* Beside the marks of the watchers: the thread is inside the function. */
enum { MARK_DEFERRED_FREE = RANK_COUNT };
_Static_assert(MARK_DEFERRED_FREE < 8, "a cache has eight marks");

_Atomic(deferred_free *) deferred_free_function;
static _Atomic(void *) context_of_function; /* (atomic: deferred context) */
static _Atomic uint64_t beats;              /* (atomic: counter) */

void deferred_free_set(deferred_free *function, void *context) {
    store_relaxed(&deferred_free_function, NULL);
    store_release(&context_of_function, context);     /* order pair: deferred context */
    store_release(&deferred_free_function, function); /* order pair: deferred free */
}

/* A function that changes meanwhile is left alone: the context may be the other's. */
PRIM_COLD bool deferred_free_call(bool is_forced) {
    deferred_free *function = load_acquire(&deferred_free_function); /* order pair: deferred free */
    void *context = load_acquire(&context_of_function); /* order pair: deferred context */
    bool is_same = function && load_relaxed(&deferred_free_function) == function;
    if (!is_same || !thread_cache_own() || thread_cache_exchange_mark(MARK_DEFERRED_FREE, true)) {
        return false;
    }
    int saved_errno = errno;
    bool is_inside = thread_cache_is_inside();
    if (is_inside) {
        thread_cache_leave();
    }
    bool has_freed = function(is_forced, add_relaxed(&beats, 1) + 1, context);
    if (is_inside) {
        thread_cache_nest();
    }
    errno = saved_errno;
    thread_cache_exchange_mark(MARK_DEFERRED_FREE, false);
    return has_freed;
}
