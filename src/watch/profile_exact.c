/* profile_exact.c - see profile_exact.h. A block is forgotten before it is freed, so that nobody
 * else can have got its address by then. One that realloc changes ends, and another one begins. */
#include "watch/profile_exact.h"

#include "objects/watcher.h"
#include "watch/profile.h"

static void *exact_allocate(const struct watcher *self, const struct request *request) {
    const struct watcher *next = watcher_next(self);
    void *block = next->allocate(next, request);
    if (block) {
        profile_record(block, request->size, 1, request->caller);
    }
    return block;
}

static void *exact_reallocate(const struct watcher *self, void *block,
                              const struct request *request) {
    const struct watcher *next = watcher_next(self);
    if (block) {
        profile_forget(block);
    }
    void *result = next->reallocate(next, block, request);
    if (result) {
        profile_record(result, request->size, 1, request->caller);
    } else if (block && request->size) { /* it failed: the block is as it was */
        profile_record(block, next->usable_size(next, block), 1, request->caller);
    }
    return result;
}

static void exact_release(const struct watcher *self, void *block, const struct request *request) {
    const struct watcher *next = watcher_next(self);
    if (block) {
        profile_forget(block);
    }
    next->release(next, block, request);
}

static size_t exact_usable_size(const struct watcher *self, const void *block) {
    const struct watcher *next = watcher_next(self);
    return next->usable_size(next, block);
}

static struct watcher exact = {
    exact_allocate, exact_reallocate, exact_release, exact_usable_size, RANK_PROFILE, NULL,
};

void profile_exact_start(void) {
    watcher_register(&exact);
}

void profile_exact_stop(void) {
    watcher_unregister(&exact);
}
