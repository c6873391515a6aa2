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

/* libc's list of open files, which its fork locks behind our handlers. Who flushes all files waits,
 * with the list, for each file; who reads a file waits, with the file, for us: so we wait for the
 * list first, as libc does before it takes its own malloc's locks. It may be locked twice. Weak:
 * other libcs have no such functions. */
typedef void list_function(void);

list_function _IO_list_lock __attribute__((weak));
list_function _IO_list_unlock __attribute__((weak));
list_function _IO_list_resetlock __attribute__((weak));

static void with_files(list_function *function) {
    if (load_relaxed(&is_held) && function) {
        function();
    }
}

/* What a handler of a signal frees in between is freed at the end, when no lock is held. */
static void prepare(void) {
    thread_cache_nest();
    if (load_relaxed(&is_held) == process_is_alone()) { /* else its page need not be written */
        store_relaxed(&is_held, !process_is_alone());
    }
    with_files(_IO_list_lock);
    watched_fork_prepare(load_relaxed(&is_held));
    heap_fork_prepare(load_relaxed(&is_held));
}

static void parent(void) {
    heap_fork_parent(load_relaxed(&is_held));
    watched_fork_parent(load_relaxed(&is_held));
    with_files(_IO_list_unlock);
    thread_cache_leave();
}

static void child(void) {
    heap_fork_child(load_relaxed(&is_held));
    watched_fork_child(load_relaxed(&is_held));
    with_files(_IO_list_resetlock);
    thread_cache_leave();
}

void fork_register(void) {
    static _Atomic uint32_t is_registered; /* (atomic: hint) */
    if (!exchange_both(&is_registered, true)) {
        heap_ensure();
        pthread_atfork(prepare, parent, child);
    }
}
