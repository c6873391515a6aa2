/* profile_exact.c - see profile_exact.h. A block is forgotten before it is freed, so that nobody
 * else can have got its address by then. One that realloc changes ends, and another one begins.
 *
 * Who looks for leaks wants freed blocks wiped: a pointer in one must not keep another alive, nor
 * the link by which a new one stood in a list of free blocks. But nobody follows one to a large
 * block that is free, whose pages may never have been touched. */
#include "watch/profile_exact.h"

#include <string.h>

#include "base/atomics.h"
#include "base/bits.h"
#include "objects/arena.h"
#include "objects/sampler.h"
#include "objects/thread_cache.h"
#include "objects/watcher.h"
#include "settings/options.h"
#include "watch/check.h"
#include "watch/live_table.h"
#include "watch/profile.h"

/* (atomic: counter) Of all threads that are past their destructors. */
static _Atomic uint32_t depth_of_ended;

/* How deep the thread is within what is to be ignored. */
static _Atomic uint32_t *ignored_depth(void) {
    struct thread_cache *cache = thread_cache_own();
    return cache ? &cache->ignored_depth : &depth_of_ended;
}

PRIM_COLD void profile_exact_ignore_begin(void) {
    add_relaxed(ignored_depth(), 1);
}

PRIM_COLD void profile_exact_ignore_end(void) {
    _Atomic uint32_t *depth = ignored_depth();
    if (load_relaxed(depth)) {
        subtract_relaxed(depth, 1);
    }
}

static void record(void *block, size_t size, const struct request *request) {
    profile_record(block, &(struct sample){.size = size, .weight = 1}, request->caller);
    if (PRIM_UNLIKELY(load_relaxed(ignored_depth()))) {
        profile_ignore(block);
    }
}

/* Whether a link fits: in a shorter block, too, if nobody guards what is behind it. Asks no block,
 * as what that leaves on the stack would keep it alive. */
static bool has_room_for_link(size_t size) {
    return size >= sizeof(void *) || !(options.check || options.guarded);
}

static void *exact_allocate(const struct watcher *self, const struct request *request) {
    void *block = watcher_pass_allocate(self, request);
    if (block && !(request->arena && request->arena->kind == ARENA_HEAP)) {
        if (options.leak_check && has_room_for_link(request->size)) {
            memset(block, 0, sizeof(void *)); /* was a link */
        }
        record(block, request->size, request);
    }
    return block;
}

/* Blocks of first-class heaps, which end with their heap without a word, and pointers that are no
 * blocks are not recorded. */
static void *exact_reallocate(const struct watcher *self, void *block,
                              const struct request *request) {
    struct live_block known = {0};
    if (!block) {
        return exact_allocate(self, request);
    }
    profile_lift(block, &known);
    void *result = watcher_pass_reallocate(self, block, request);
    if (known.address) {
        profile_settle(&known, result || request->size == 0); /* else it failed */
    }
    if (result && !arena_of(check_place(result))) {
        record(result, request->size, request);
    }
    return result;
}

static void exact_release(const struct watcher *self, void *block, const struct request *request) {
    if (block && profile_forget(block, 0) && options.leak_check) {
        memset(block, 0, bits_min(watcher_pass_usable_size(self, block), WIPED_MOST));
    }
    watcher_pass_release(self, block, request);
}

static struct watcher exact = {
    exact_allocate, exact_reallocate, exact_release, watcher_pass_usable_size, RANK_PROFILE, NULL,
};

PRIM_COLD void profile_exact_start(void) {
    watcher_register(&exact);
}

PRIM_COLD void profile_exact_stop(void) {
    watcher_unregister(&exact);
}
