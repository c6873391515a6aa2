/* heap.c - see heap.h. */
#include "objects/heap.h"

#include "objects/arena.h"
#include "objects/hardened.h"
#include "objects/hardened_slab.h"
#include "objects/maintenance.h"
#include "objects/sampler.h"
#include "objects/slab.h"
#include "objects/thread_cache.h"
#include "objects/thread_sampler.h"
#include "objects/threshold.h"
#include "objects/watcher.h"
#include "os/lock.h"
#include "os/process.h"
#include "pages/address_map.h"
#include "pages/metadata.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "pages/recycle.h"
#include "settings/options.h"

_Atomic bool heap_is_ready;

static struct lock heap_lock; /* (lock: HEAP) held while the heap is set up */

bool heap_read_options(void) {
    static bool is_done; /* (lock: HEAP, or the constructor, which runs alone) */
    char **environment = is_done ? NULL : process_environment();
    if (environment) {
        is_done = true;
        options_read(environment);
        heap_apply_options();
        watchers_begin();
    }
    return is_done;
}

void heap_apply_options(void) {
    if (option_now(confined)) {
        maintenance_confine();
    }
    threshold_apply_options();
    thread_cache_apply_options();
}

void heap_initialise(void) {
    thread_cache_nest();
    lock_acquire(&heap_lock, LOCK_HEAP);
    if (!load_relaxed(&heap_is_ready)) {
        thread_cache_initialise();
        heap_read_options();
        address_map_initialise();
        span_initialise();
        store_release(&heap_is_ready, true); /* order pair: ready */
    }
    lock_release(&heap_lock, LOCK_HEAP);
    thread_cache_leave();
}

static void hold_all(void) {
    purge_fork_prepare();
    lock_acquire_unranked(&heap_lock);
    watcher_fork_prepare();
    thread_cache_fork_prepare();
    arena_fork_prepare();
    slab_fork_prepare();
    hardened_slab_fork_prepare();
    recycle_fork_prepare();
    lock_acquire_unranked(&page_heap.lock);
    metadata_fork_prepare();
}

static void release_all(void) {
    metadata_fork_parent();
    lock_release_unranked(&page_heap.lock);
    recycle_fork_parent();
    hardened_slab_fork_parent();
    slab_fork_parent();
    arena_fork_parent();
    thread_cache_fork_parent();
    watcher_fork_parent();
    lock_release_unranked(&heap_lock);
    purge_fork_parent();
}

static void reset_all(void) {
    metadata_fork_child();
    lock_reset(&page_heap.lock);
    recycle_fork_child();
    hardened_slab_fork_child();
    slab_fork_child();
    arena_fork_child();
    thread_cache_fork_child();
    watcher_fork_child();
    lock_reset(&heap_lock);
    purge_fork_child();
}

void heap_fork_prepare(bool with_locks) {
    if (with_locks) {
        hold_all();
    }
}

void heap_fork_parent(bool with_locks) {
    if (with_locks) {
        release_all();
    }
    if (sampler_was_started()) {
        thread_sampler_fork_parent();
    }
}

void heap_fork_child(bool with_locks) {
    if (with_locks) {
        reset_all();
    }
    if (sampler_was_started()) {
        thread_sampler_fork_child(thread_cache_own());
    }
    if (hardened_is_on()) {
        hardened_take_over(thread_cache_own());
    }
    maintenance_fork_child();
}
