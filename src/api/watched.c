/* watched.c - see watched.h: the observers that the options ask for begin and end here. */
#include "api/watched.h"

#include "objects/thread_cache.h"
#include "objects/watcher.h"
#include "os/lock.h"
#include "os/output_file.h"
#include "os/process.h"
#include "primalloc.h"
#include "settings/options.h"
#include "watch/check.h"
#include "watch/guarded.h"
#include "watch/profile.h"
#include "watch/snapshot.h"
#include "watch/stack.h"

void watchers_begin(void) {
    check_begin();
}

void watched_start(void) {
    if (options.check) {
        check_prepare();
    }
    guarded_start();
}

void watched_fork_prepare(bool with_locks) {
    if (with_locks) {
        lock_acquire_unranked(&checks_lock);
        lock_acquire_unranked(&profile_lock);
    }
}

void watched_fork_parent(bool with_locks) {
    if (with_locks) {
        lock_release_unranked(&profile_lock);
        lock_release_unranked(&checks_lock);
    }
}

void watched_fork_child(bool with_locks) {
    if (with_locks) {
        lock_reset(&checks_lock);
        lock_reset(&profile_lock);
        guarded_fork_child();
        stack_fork_child();
    }
    if (profile_was_started()) {
        profile_begin_child();
    }
}

const void *watched_place(const void *block) {
    return options.check && !thread_cache_is_inside() ? check_place(block) : block;
}

void *watched_show(void *block, size_t size, size_t *shown_size) {
    *shown_size = size;
    if (options.check) {
        check_show(&block, shown_size);
    }
    return block;
}

void watched_end_heap(struct arena *arena) {
    if (options.check) {
        check_end_arena(arena);
    }
}

void watched_finish(void) {
    check_finish();
    if (options.stats_output) {
        char line[1024]; /* names of files have up to 255 bytes, of which each may become three */
        struct print out = print_to(line, sizeof line);
        snapshot_print_calls(&out);
        if (!output_file_append(options.stats_output, line, out.length)) {
            process_complain("cannot write ", options.stats_output);
        }
    }
    if (option_now(show_stats)) {
        prim_stats_print();
    }
}
