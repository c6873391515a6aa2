/* fork.c - see fork.h. */
#include "api/fork.h"

#include <pthread.h>

#include "api/watched.h"
#include "objects/heap.h"
#include "objects/thread_cache.h"
#include "os/alone.h"

/* Whether the process had other threads when fork began: else nobody can hold a lock, and the pages
 * that locks lie in need not be written, which costs parent and child a copy of each. */
static _Atomic bool is_held; /* (atomic: hint) of several forks at once all say the same */

/* What a handler of a signal frees in between is freed at the end, when no lock is held. */
static void prepare(void) {
    thread_cache_nest();
    store_relaxed(&is_held, !process_is_alone());
    watched_fork_prepare(load_relaxed(&is_held));
    heap_fork_prepare(load_relaxed(&is_held));
}

static void parent(void) {
    heap_fork_parent(load_relaxed(&is_held));
    watched_fork_parent(load_relaxed(&is_held));
    thread_cache_leave();
}

static void child(void) {
    heap_fork_child(load_relaxed(&is_held));
    watched_fork_child(load_relaxed(&is_held));
    thread_cache_leave();
}

void fork_register(void) {
    static _Atomic uint32_t is_registered; /* (atomic: hint) */
    if (!exchange_both(&is_registered, true)) {
        heap_ensure();
        pthread_atfork(prepare, parent, child);
    }
}
