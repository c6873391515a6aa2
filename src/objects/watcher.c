/* watcher.c - see watcher.h: the chain, and the plain allocator at its end. */
#include "objects/watcher.h"

#include <errno.h>
#include <string.h>

#include "objects/arena.h"
#include "objects/maintenance.h"
#include "objects/slow_door.h"
#include "objects/thread_cache.h"
#include "os/lock.h"

static struct lock watchers_lock;

_Atomic(const struct watcher *) watcher_first;

static const watcher_word nobody;
static const struct watcher_wish no_wish = {&nobody, NULL};
_Atomic(const struct watcher_wish *) watcher_wish = &no_wish;

static void *plain_allocate(const struct watcher *self, const struct request *request) {
    (void)self;
    if (request->arena) {
        struct arena_request wanted = {request->size, request->alignment, request->offset};
        return request->is_zeroed ? arena_allocate_zeroed(request->arena, wanted)
                                  : arena_allocate_entering(request->arena, wanted, NULL);
    }
    return request->is_zeroed ? allocate_zeroed(request->size, request->alignment)
                              : allocate_aligned(request->size, request->alignment);
}

static void plain_release(const struct watcher *self, void *block, const struct request *request) {
    (void)self;
    release_slower(block, request->caller);
}

static void *plain_reallocate(const struct watcher *self, void *block,
                              const struct request *request) {
    if (block && request->size == 0) {
        plain_release(self, block, request);
        return NULL;
    }
    return reallocate(block, request->size);
}

static size_t plain_usable_size(const struct watcher *self, const void *block) {
    (void)self;
    return usable_size(block);
}

static const struct watcher plain = {
    plain_allocate, plain_reallocate, plain_release, plain_usable_size, RANK_COUNT, NULL,
};

typedef _Atomic(const struct watcher *) watcher_link;

/* With the lock held: the link that leads to the watcher, or to where it belongs. */
static watcher_link *link_to(const struct watcher *watcher) {
    watcher_link *place = &watcher_first;
    const struct watcher *there = load_relaxed(place);
    while (there && there != watcher && there->rank <= watcher->rank) {
        place = (watcher_link *)&there->next;
        there = load_relaxed(place);
    }
    return place;
}

PRIM_COLD void watchers_hold(void) {
    thread_cache_nest();
    lock_acquire(&watchers_lock, LOCK_WATCHERS);
}

PRIM_COLD void watchers_let_go(void) {
    lock_release(&watchers_lock, LOCK_WATCHERS);
    thread_cache_leave();
}

void watcher_register(struct watcher *watcher) {
    watchers_hold();
    watcher_link *place = link_to(watcher);
    const struct watcher *following = load_relaxed(place);
    if (following != watcher) {
        store_relaxed(&watcher->next, following ? following : &plain);
        store_release(place, watcher); /* order pair: watchers */
    }
    watchers_let_go();
}

void watcher_unregister(struct watcher *watcher) {
    watchers_hold();
    watcher_link *place = link_to(watcher);
    if (load_relaxed(place) == watcher) {
        const struct watcher *following = load_relaxed(&watcher->next);
        bool is_last = place == &watcher_first && following == &plain;
        store_release(place, is_last ? NULL : following); /* order pair: watchers */
    }
    watchers_let_go();
}

/* The last watcher may have left since the call was found to be watched; and a signal handler may
 * have interrupted one that holds a lock. */
static const struct watcher *first(void) {
    const struct watcher *watcher = load_acquire(&watcher_first); /* order pair: watchers */
    return watcher && !thread_cache_is_inside() ? watcher : &plain;
}

void *watcher_allocate(const struct request *request) {
    const struct watcher *watcher = first();
    return watcher->allocate(watcher, request);
}

void *watcher_reallocate(void *block, const struct request *request) {
    const struct watcher *watcher = first();
    return watcher->reallocate(watcher, block, request);
}

void watcher_release(void *block, const struct request *request) {
    const struct watcher *watcher = first();
    int saved_errno = errno;
    watcher->release(watcher, block, request);
    errno = saved_errno;
}

size_t watcher_usable_size(const void *block) {
    const struct watcher *watcher = first();
    return watcher->usable_size(watcher, block);
}

static const struct watcher *next(const struct watcher *self) {
    /* The field of a const object is read only; C11's atomic_load wants it without const. */
    return load_acquire((watcher_link *)&self->next); /* order pair: watchers */
}

void *watcher_pass_allocate(const struct watcher *self, const struct request *request) {
    const struct watcher *watcher = next(self);
    return watcher->allocate(watcher, request);
}

void *watcher_pass_reallocate(const struct watcher *self, void *block,
                              const struct request *request) {
    const struct watcher *watcher = next(self);
    return watcher->reallocate(watcher, block, request);
}

void watcher_pass_release(const struct watcher *self, void *block, const struct request *request) {
    const struct watcher *watcher = next(self);
    watcher->release(watcher, block, request);
}

size_t watcher_pass_usable_size(const struct watcher *self, const void *block) {
    const struct watcher *watcher = next(self);
    return watcher->usable_size(watcher, block);
}

bool watcher_enter(const struct watcher *self) {
    return !thread_cache_exchange_mark(self->rank, true);
}

void watcher_leave(const struct watcher *self) {
    thread_cache_exchange_mark(self->rank, false);
}

void watcher_fork_prepare(void) {
    lock_acquire_unranked(&watchers_lock);
}

void watcher_fork_parent(void) {
    lock_release_unranked(&watchers_lock);
}

void watcher_fork_child(void) {
    lock_reset(&watchers_lock);
}
