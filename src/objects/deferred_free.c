/* deferred_free.c - see deferred_free.h. */
#include "objects/deferred_free.h"

#include <errno.h>

#include "objects/thread_cache.h"
#include "objects/watcher.h"

_Atomic(deferred_free *) deferred_free_function;
static void *context_of_function; /* (lock: WATCHERS) */
static _Atomic uint64_t beats;    /* (atomic: counter) */

void deferred_free_set(deferred_free *function, void *context) {
    watchers_hold();
    store_relaxed(&deferred_free_function, function);
    context_of_function = context;
    watchers_let_go();
}

PRIM_COLD bool deferred_free_call(bool is_forced) {
    watchers_hold();
    deferred_free *function = load_relaxed(&deferred_free_function);
    void *context = context_of_function;
    watchers_let_go();
    if (!function || !thread_cache_own() || thread_cache_exchange_mark(MARK_DEFERRED_FREE, true)) {
        return false;
    }
    int saved_errno = errno;
    thread_cache_leave();
    bool has_freed = function(is_forced, add_relaxed(&beats, 1) + 1, context);
    thread_cache_nest();
    errno = saved_errno;
    thread_cache_exchange_mark(MARK_DEFERRED_FREE, false);
    return has_freed;
}
