/* reallocate.c - usable_size and reallocate of slow_door.h. */
#include <errno.h>
#include <string.h>

#include "objects/allocate.h"
#include "objects/arena.h"
#include "objects/call_counts.h"
#include "objects/foreign.h"
#include "objects/hardened.h"
#include "objects/large.h"
#include "objects/maintenance.h"
#include "objects/reserve.h"
#include "objects/tag.h"
#include "objects/thread_sampler.h"
#include "objects/threshold.h"
#include "objects/watcher.h"
#include "settings/options.h"

enum {
    GROWN_SIZE_MIN = 32 * 1024,   /* a block that grows to so much gets a span ... */
    APPENDED_SIZE_MIN = 8 * 1024, /* ... or to so much, if by little: */
    APPENDED_DIVISOR = 64,        /* by such a part of what it was at most */
    SCATTERED_DIVISOR = 16,       /* such a part of the heap in free pieces is too much */
    QUARTER_SIZE_MIN = 1024,      /* from here on a quarter more is room for more steps */
};

/* The size of a class's blocks; 0 for what is of none. */
PRIM_INLINE size_t class_size(unsigned object_class) {
    return object_class <= CLASS_COUNT ? size_classes[object_class].size : 0;
}

static PRIM_NOINLINE size_t usable_size_of_others(const void *block) {
    unsigned object_class = span_class_of(block);
    if (object_class == CLASS_LARGE) {
        return span_size(span_of_block(block));
    }
    if (object_class == CLASS_ARENA) {
        return arena_usable_size(block);
    }
    return object_class == CLASS_PLACED ? sampler_placed_size(block) : foreign_usable_size(block);
}

size_t usable_size(const void *block) {
    size_t size = class_size(span_class_of(block));
    return PRIM_LIKELY(size != 0) ? size : usable_size_of_others(block);
}

/* To those who sample, a block that became larger is another one: then none does. */
bool expand(void *block, size_t size) {
    if (size <= usable_size(block)) {
        return block != NULL;
    }
    unsigned object_class = span_class_of(block);
    if (object_class == 0 || sampler_was_started() || !thread_cache_enter()) {
        return false;
    }
    bool is_done = object_class == CLASS_ARENA
                       ? arena_expand(block, size)
                       : object_class == CLASS_LARGE && large_resize(span_of_block(block), size);
    thread_cache_leave();
    return is_done;
}

size_t good_size(size_t size) {
    if (threshold_is_large(size)) {
        return size > PTRDIFF_MAX ? size : bits_round_up(size, SLICE_SIZE);
    }
    return size_classes[size_class_of(size)].size;
}

/* From which size on. What grows by leaps leaves each span soon, and behind it a piece that is
 * seldom of use: not where there are many. */
static size_t least_for_span(size_t old_size, size_t size) {
    if (size - old_size <= old_size / APPENDED_DIVISOR) {
        return APPENDED_SIZE_MIN;
    }
    bool is_scattered = purge_returnable_bytes() > page_heap_resident_bytes() / SCATTERED_DIVISOR;
    return is_scattered ? MEDIUM_SIZE_MAX + 1 : GROWN_SIZE_MIN;
}

/* Whether a block that was moved because it grew is worth a span with room behind it. In a hardened
 * heap each step would move a guard. */
static bool wants_span(size_t old_size, size_t size) {
    return size > old_size && size >= APPENDED_SIZE_MIN && size <= SPARSE_SIZE_MAX &&
           size >= least_for_span(old_size, size) && !hardened_is_on() && !tag_arena();
}

/* A span with room behind it, where the block grows in place; or NULL. */
static void *allocate_in_span(size_t size) {
    if (!thread_cache_enter()) {
        return NULL;
    }
    void *target = large_allocate_growing(size);
    if (target && sampler_was_started()) {
        thread_sampler_see_large(target, size, 0);
    }
    thread_cache_leave();
    if (target && PRIM_UNLIKELY(options.stats)) {
        call_counts_allocation(CLASS_LARGE, size);
    }
    return target;
}

/* A block that outgrew its class may well grow again: it gets a span, or a quarter more, rather
 * than pass through every class on its way. */
static void *allocate_moved(size_t old_size, size_t size) {
    void *target = wants_span(old_size, size) ? allocate_in_span(size) : NULL;
    if (target) {
        return target;
    }
    size_t room = old_size + old_size / 4;
    bool gets_room = size > old_size && size < room && old_size >= QUARTER_SIZE_MIN;
    return gets_room && !threshold_is_large(room) ? allocate_with_room(size, room) : allocate(size);
}

/* What grows leaves a block of each size behind: those that are spans join, for its next step. */
PRIM_NOINLINE void *move_to(void *target, void *block, size_t old_size, size_t size) {
    if (!target) {
        return size <= old_size ? block : NULL;
    }
    /* in place of memcpy a compiler that saves bytes takes a slow instruction */
    memmove(target, block, bits_min(old_size, size));
    if (size > old_size && old_size > EIGHTHS_SIZE_MAX) {
        release_past_bins(block);
    } else if (PRIM_UNLIKELY(!release_to_cache(block))) {
        release_moved(block);
    }
    return target;
}

static void *move_block(void *block, size_t old_size, size_t size) {
    return move_to(allocate_moved(old_size, size), block, old_size, size);
}

/* To those who sample, a large block that becomes another number of slices is another one; but one
 * that could not stays what it was. */
static void *resize_or_move(struct span *span, size_t size, bool may_move) {
    size_t old_size = span_size(span);
    void *target = (void *)span->address;
    if (!large_resize(span, size)) {
        target = may_move ? large_move(span, size) : NULL;
    } else if (PRIM_UNLIKELY(span->sampled) && span_size(span) != old_size) {
        span->sampled = SPAN_UNSAMPLED;
        sampler_end(target, 0);
    }
    if (target && sampler_was_started() && span_size(span_of_block(target)) != old_size) {
        thread_sampler_see_large(target, size, 0);
    }
    return target;
}

/* Whether it takes as many slices as before. */
PRIM_INLINE bool keeps_slices(const struct span *span, size_t size) {
    return span_size(span) - size < SLICE_SIZE;
}

static void *reallocate_large(void *block, size_t size) {
    struct span *span = span_of_block(block);
    size_t old_size = span_size(span);
    bool is_of_class = span->sampled == SPAN_SAMPLED_OF_CLASS; /* then see stays_in_class */
    if (old_size - size < (is_of_class ? old_size / 2 + 1 : SLICE_SIZE)) {
        if (PRIM_UNLIKELY(span->sampled)) {
            sampler_end(block, size);
        }
        return block;
    }
    bool stays_large =
        !is_of_class && size > old_size && (threshold_is_large(size) || wants_span(old_size, size));
    void *target;
    thread_cache_nest();
    do {
        target = is_of_class ? NULL : resize_or_move(span, size, stays_large);
    } while (PRIM_UNLIKELY(!target) && stays_large && make_room(size));
    thread_cache_leave();
    if (!target && !stays_large) {
        return move_block(block, old_size, size);
    }
    return PRIM_LIKELY(target != NULL) ? target : fail_allocation(size);
}

/* Whether a block of a class stays where it is, as nothing is to be saved. */
PRIM_INLINE bool stays_in_class(size_t old_size, size_t size) {
    return size <= old_size && (size >= old_size / 2 || old_size <= 16);
}

static void *reallocate_small(void *block, unsigned object_class, size_t size) {
    size_t old_size = size_classes[object_class].size;
    return stays_in_class(old_size, size) ? block : move_block(block, old_size, size);
}

/* Into the reserve, or out of it; what a watcher gave out is left alone. Nobody asks for a tag: the
 * thread may be about to make its cache. */
static PRIM_COLD void *reallocate_in_handler(void *block, size_t size) {
    size_t old_size = reserve_size(block);
    if (old_size == 0 && !watcher_is_any()) {
        old_size = usable_size(block);
    }
    if (old_size == 0) {
        errno = ENOMEM;
        return NULL;
    }
    return size <= old_size ? block : move_to(allocate_slow(size), block, old_size, size);
}

/* options.perturb: what is added has to look new, and what is left behind freed. */
static PRIM_COLD void *reallocate_filled(void *block, size_t size) {
    size_t old_size = usable_size(block);
    if (size <= old_size && size >= old_size / 2) {
        return block; /* filled to its end when it was new */
    }
    return move_to(allocate(size), block, old_size, size);
}

static PRIM_NOINLINE void *reallocate_any(void *block, size_t size) {
    if (!block) {
        return allocate_slow(size);
    }
    if (PRIM_UNLIKELY(thread_cache_is_inside())) {
        return reallocate_in_handler(block, size);
    }
    if (hardened_is_on() && !hardened_check("realloc", block)) {
        errno = ENOMEM;
        return NULL;
    }
    unsigned object_class = span_class_of(block);
    if (PRIM_UNLIKELY(object_class == 0)) {
        return foreign_reallocate(block, size);
    }
    if (PRIM_UNLIKELY(options.stats)) {
        call_counts_reallocation();
    }
    if (PRIM_UNLIKELY(object_class == CLASS_ARENA)) {
        return arena_reallocate(block, size);
    }
    if (PRIM_UNLIKELY(object_class == CLASS_PLACED)) {
        return move_block(block, sampler_placed_size(block), size);
    }
    if (PRIM_UNLIKELY(option_now(perturb))) {
        return reallocate_filled(block, size);
    }
    void *result = object_class == CLASS_LARGE ? reallocate_large(block, size)
                                               : reallocate_small(block, object_class, size);
    maintenance_consider(__builtin_return_address(0), object_class == CLASS_LARGE);
    return result;
}

/* Whether a block that leaves its class may get a span, or more room than it asks for. */
PRIM_INLINE bool may_get_room(size_t old_size, size_t size) {
    return size >= APPENDED_SIZE_MIN ||
           (old_size >= QUARTER_SIZE_MIN && size < old_size + old_size / 4);
}

static PRIM_NOINLINE void *change_class(void *block, size_t old_size, size_t size) {
    return move_to(allocate(size), block, old_size, size);
}

/* What most calls come to: the block stays where it is, with as many slices if it is large, or
 * changes from class to class. */
static void *reallocate_plainly(void *block, size_t size) {
    unsigned object_class = span_class_of(block);
    size_t old_size = class_size(object_class);
    if (object_class == CLASS_LARGE) {
        const struct span *span = span_of_block(block);
        if (keeps_slices(span, size) && PRIM_LIKELY(!span->sampled)) {
            return block;
        }
    }
    if (old_size == 0 || (size > old_size && may_get_room(old_size, size))) {
        return reallocate_any(block, size);
    }
    return stays_in_class(old_size, size) ? block : change_class(block, old_size, size);
}

/* Nobody wants to see the call where the thread's cache is visible. */
void *reallocate(void *block, size_t size) {
    bool is_seen = hardened_is_on() || !thread_cache_visible->medium_size_max;
    return is_seen ? reallocate_any(block, size) : reallocate_plainly(block, size);
}
