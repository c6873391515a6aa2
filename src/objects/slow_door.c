/* slow_door.c - see slow_door.h: sorts out why the fast path could not serve a call. */
#include "objects/slow_door.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "objects/allocate.h"
#include "objects/arena.h"
#include "objects/call_counts.h"
#include "objects/complaint.h"
#include "objects/deferred_free.h"
#include "objects/foreign.h"
#include "objects/hardened.h"
#include "objects/heap.h"
#include "objects/large.h"
#include "objects/maintenance.h"
#include "objects/reserve.h"
#include "objects/size_class.h"
#include "objects/size_table.h"
#include "objects/slab.h"
#include "objects/tag.h"
#include "objects/thread_sampler.h"
#include "objects/watcher.h"
#include "objects/threshold.h"
#include "os/alone.h"
#include "os/memory.h"
#include "os/thread.h"
#include "pages/page_heap.h"
#include "pages/sparse.h"
#include "settings/options.h"

enum {
    SETTLED_MIN = 1 << 20, /* bytes of a heap that is worth settling, ... */
    SETTLED_DIVISOR = 8,   /* ... and by what part of it it must have grown since the last time */
};

PRIM_COLD void *fail_allocation(size_t size) {
    complaint_memory(size);
    errno = ENOMEM;
    return NULL;
}

/* What a program must not rely on has no zeros in it. */
PRIM_COLD void see_allocation(void *block, size_t size, size_t filled_size) {
    uint64_t perturb = option_now(perturb);
    if (options.stats) {
        call_counts_allocation(span_class_of(block), size);
    }
    if (perturb) {
        memset(block, (int)(perturb ^ 0xff), filled_size);
    }
}

static PRIM_COLD void see_free(void *block) {
    uint64_t perturb = option_now(perturb);
    if (options.stats) {
        call_counts_frees(span_class_of(block), 1);
    }
    if (perturb) {
        memset(block, (int)perturb, usable_size(block));
    }
}

/* Without a cache: one block from the slabs; what came along goes straight back. */
static PRIM_COLD void *allocate_from_slabs(unsigned object_class, bool *is_zero) {
    void *list;
    unsigned count = slab_acquire(0, object_class, 1, &list, is_zero);
    if (count > 1) {
        slab_release(object_class, *(void **)list);
    }
    return count ? list : NULL;
}

PRIM_INLINE void *pop(struct thread_cache *cache, unsigned object_class, size_t alignment,
                      bool *is_zero) {
    void *block = cache->head[object_class];
    if (PRIM_UNLIKELY(!block)) {
        return thread_cache_refill(cache, object_class, alignment, is_zero);
    }
    return thread_cache_pop(cache, object_class, block);
}

/* What the thread only keeps for itself goes back, and empty slabs. */
static void give_idle(struct thread_cache *cache) {
    if (cache) {
        thread_cache_flush(cache);
    }
    slab_trim();
}

/* What the program frees when it is asked to, and what is idle, go back first. Where a limit on
 * address space is to blame, giving up the address map makes room once: frees then take the slow
 * door, but allocation goes on. No other thread may look into the map at that moment: neither ours,
 * nor one without a cache, which those that end, and those that only free at first, do not have. */
PRIM_COLD bool make_room(size_t size) {
    if (size >> PRIM_ADDRESS_BITS) {
        return false;
    }
    size_t before = page_heap_free_bytes();
    bool has_freed = deferred_free_beat(true);
    give_idle(thread_cache_own());
    hardened_trim();
    return has_freed || page_heap_free_bytes() > before ||
           (memory_is_limited(SIZE_MAX) && thread_cache_is_only() && maintenance_end() &&
            (process_is_alone() || thread_is_only()) && address_map_abandon());
}

/* For a large block of clean pages. Where such make the heap grow, bins may have been filled in
 * another phase, with too few slow events since for them to be collected. */
static PRIM_COLD void give_idle_if_grown(void) {
    static _Atomic size_t settled; /* (atomic: hint) bytes resident the last time */
    size_t bytes = page_heap_resident_bytes();
    size_t before = bits_max(load_relaxed(&settled), SETTLED_MIN);
    if (bytes >= before + before / SETTLED_DIVISOR) {
        store_relaxed(&settled, bytes);
        give_idle(thread_cache_own());
    }
}

/* In a hardened heap there may be room for blocks, and none for what it knows of them. */
static void *allocate_unsampled(struct thread_cache *cache, unsigned object_class, size_t alignment,
                                bool *is_zero) {
    if (hardened_is_on()) {
        void *block = hardened_allocate(cache, bits_max(object_class, CLASS_OF_16));
        return block ? block : allocate_from_slabs(object_class, is_zero);
    }
    if (!cache) {
        return allocate_from_slabs(object_class, is_zero);
    }
    return PRIM_UNLIKELY(cache->is_sampling) && object_class <= SMALL_CLASS_LAST
               ? thread_sampler_pop(cache, object_class)
               : pop(cache, object_class, alignment, is_zero);
}

/* One block of a class, for a request of this size, in whatever state the thread is. */
static PRIM_NOINLINE void *allocate_from_class(unsigned object_class, size_t size, size_t alignment,
                                               bool *is_zero) {
    struct thread_cache *cache = thread_cache_own();
    void *block = NULL;
    do { /* make_room may run the program's function, which allocates: what is left has changed */
        if (sampler_was_started() && !(cache && thread_sampler_passes(cache, object_class))) {
            block = thread_sampler_allocate(cache, object_class, size, alignment);
        }
        block = block ? block : allocate_unsampled(cache, object_class, alignment, is_zero);
    } while (PRIM_UNLIKELY(!block) && make_room(size));
    if (PRIM_UNLIKELY(!block)) {
        return NULL;
    }
    if (PRIM_UNLIKELY(options_see_every_call())) {
        see_allocation(block, size, is_zero ? 0 : usable_size(block));
    }
    return block;
}

static PRIM_NOINLINE void *allocate_large(size_t size, size_t alignment, bool *is_zero) {
    struct span *span;
    do {
        span = large_allocate(size, alignment, is_zero);
    } while (PRIM_UNLIKELY(!span) && make_room(bits_max(size, alignment)));
    if (PRIM_UNLIKELY(!span)) {
        return NULL;
    }
    void *block = (void *)span->address;
    if (PRIM_UNLIKELY(span->is_zero)) {
        give_idle_if_grown();
    }
    if (sampler_was_started()) {
        thread_sampler_see_large(block, size, alignment);
    }
    if (PRIM_UNLIKELY(options_see_every_call())) {
        see_allocation(block, size, is_zero ? 0 : usable_size(block));
    }
    return block;
}

/* Whether a block that may be large is of a class. */
static bool has_sparse_class(size_t size) {
    return load_relaxed(&sparse_is_on) && size > MEDIUM_SIZE_MAX && size <= SPARSE_SIZE_MAX &&
           size < option_now(mmap_threshold);
}

/* The class of a block that may be large. Samplers count it as a large one. */
static unsigned greater_class(size_t size) {
    return has_sparse_class(size) && load_relaxed(&sampler_size_max) == 0 ? size_class_sparse(size)
                                                                          : CLASS_LARGE;
}

static unsigned plain_class(size_t size) {
    if (threshold_is_large(size)) {
        return greater_class(size);
    }
    return size <= SMALL_SIZE_MAX ? thread_sampler_class(size_table_bin(size))
                                  : size_class_by_arithmetic(size);
}

/* Slabs begin at multiples of SLICE_SIZE, so every block of a class whose size is a multiple of
 * the alignment is aligned; among eight neighbouring classes there is always one. */
PRIM_INLINE unsigned aligned_class(size_t size, size_t alignment) {
    if (alignment > SLICE_SIZE) {
        return CLASS_LARGE;
    }
    if (size > EIGHTHS_SIZE_MAX || threshold_is_large(size)) {
        return plain_class(size); /* whole slices */
    }
    size_t rounded = bits_max(bits_round_up(size, alignment), alignment);
    unsigned object_class = size_class_of(rounded);
    while (size_classes[object_class].size & (alignment - 1)) {
        object_class++;
    }
    PRIM_ASSERT(object_class <= CLASS_COUNT);
    return object_class;
}

static void *allocate_any(size_t size, size_t alignment, bool *is_zero) {
    heap_ensure();
    deferred_free_beat(false);
    struct arena *arena = tag_arena();
    if (PRIM_UNLIKELY(arena != NULL)) {
        return arena_allocate(arena, (struct arena_request){size, alignment, 0}, is_zero);
    }
    unsigned object_class = CLASS_LARGE; /* great ones of zeros: fresh pages have them untouched */
    if (!is_zero || !threshold_is_large(size)) {
        object_class = alignment ? aligned_class(size, alignment) : plain_class(size);
    }
    return object_class == CLASS_LARGE
               ? allocate_large(bits_max(size, 1), alignment, is_zero)
               : allocate_from_class(object_class, size, alignment, is_zero);
}

static void *allocate_entering(size_t size, size_t alignment, bool *is_zero) {
    if (PRIM_UNLIKELY(!thread_cache_enter())) {
        return reserve_allocate(size, alignment);
    }
    void *block = allocate_any(size, alignment, is_zero);
    thread_cache_leave();
    return PRIM_LIKELY(block != NULL) ? block : fail_allocation(size);
}

void *arena_allocate_entering(struct arena *arena, struct arena_request request, bool *is_zero) {
    if (PRIM_UNLIKELY(!thread_cache_enter())) {
        return reserve_allocate(request.offset ? SIZE_MAX : request.size, request.alignment);
    }
    void *block = arena_allocate(arena, request, is_zero);
    thread_cache_leave();
    return PRIM_LIKELY(block != NULL) ? block : fail_allocation(request.size);
}

void *arena_allocate_zeroed(struct arena *arena, struct arena_request request) {
    bool is_zero = false;
    void *block = arena_allocate_entering(arena, request, &is_zero);
    return block && !is_zero ? memset(block, 0, request.size) : block;
}

/* Most slow calls: the thread's own cache is visible, so nobody wants to see the call, and only the
 * bin is empty or the block large. NULL where there is no memory. */
static void *allocate_plainly(struct thread_cache *cache, size_t size) {
    thread_cache_enter_shortly();
    deferred_free_beat(false);
    unsigned object_class = plain_class(size);
    void *block = object_class == CLASS_LARGE ? allocate_large(bits_max(size, 1), 0, NULL)
                                              : pop(cache, object_class, 0, NULL);
    thread_cache_leave_to(cache);
    return block;
}

/* A block of a thread that samples, if counts tell by themselves that it is not sampled. */
static void *pop_counted(struct thread_cache *cache, unsigned object_class) {
    if (!thread_sampler_passes(cache, object_class)) {
        return NULL;
    }
    return object_class <= SMALL_CLASS_LAST ? thread_sampler_pop(cache, object_class)
                                            : pop(cache, object_class, 0, NULL);
}

static void *allocate_large_counted(struct thread_cache *cache, size_t size) {
    if (!has_sparse_class(size)) {
        return allocate_large(bits_max(size, 1), 0, NULL);
    }
    void *block = thread_sampler_see_large(NULL, size, 0);
    return block ? block : pop(cache, size_class_sparse(size), 0, NULL);
}

/* As allocate_plainly, of a thread that samples. */
static PRIM_NOINLINE void *allocate_counted(struct thread_cache *cache, size_t size) {
    thread_cache_enter_shortly(); /* before the lists are looked at, which handlers change, too */
    void *block = size <= SMALL_SIZE_MAX ? thread_sampler_exchange(cache, size) : NULL;
    if (block) {
        thread_cache_leave_shortly(cache);
        return block;
    }
    deferred_free_beat(false);
    unsigned object_class = plain_class(size);
    block = object_class == CLASS_LARGE ? allocate_large_counted(cache, size)
                                        : pop_counted(cache, object_class);
    thread_cache_leave_to(cache);
    return PRIM_LIKELY(block != NULL) ? block : allocate_entering(size, 0, NULL);
}

PRIM_NOINLINE void *allocate_slower(size_t size) {
    struct thread_cache *cache = thread_cache_visible;
    if (PRIM_UNLIKELY(cache->is_sampling)) {
        return allocate_counted(cache, size);
    }
    bool is_plain = cache->rest && thread_sampler_is_current(cache) && !hardened_is_on();
    void *block = PRIM_LIKELY(is_plain) ? allocate_plainly(cache, size) : NULL;
    return PRIM_LIKELY(block != NULL) ? block : allocate_entering(size, 0, NULL);
}

PRIM_NOINLINE void *allocate_slow(size_t size) {
    struct hardened_cache *hardened = hardened_here();
    if (hardened) {
        return hardened_malloc(size, hardened);
    }
    return size <= SMALL_SIZE_MAX ? allocate_slower(size)
                                  : allocate_medium_or(size, allocate_slower, allocate_slower);
}

void *allocate_with_room(size_t size, size_t room) {
    void *block = allocate_medium_or(room, allocate_nothing, allocate_nothing);
    if (!block && !tag_arena() && thread_cache_enter()) {
        deferred_free_beat(false);
        block = allocate_from_class(size_class_by_arithmetic(room), size, 0, NULL);
        thread_cache_leave();
    }
    return block ? block : allocate(size);
}

static PRIM_NOINLINE void *allocate_aligned_counted(struct thread_cache *cache, size_t size,
                                                    size_t alignment, unsigned object_class) {
    void *block = thread_sampler_take(cache, object_class);
    return block ? block : allocate_entering(size, alignment, NULL);
}

/* The class of large blocks has an empty bin, as any has where somebody wants to see the call. */
void *allocate_aligned(size_t size, size_t alignment) {
    if (alignment <= 8) {
        return allocate_slow(size);
    }
    struct thread_cache *cache = thread_cache_visible;
    unsigned object_class = aligned_class(size, alignment);
    void *block = cache->head[object_class];
    if (PRIM_UNLIKELY(!block) || PRIM_UNLIKELY(cache->is_sampling)) {
        return cache->is_sampling ? allocate_aligned_counted(cache, size, alignment, object_class)
                                  : allocate_entering(size, alignment, NULL);
    }
    return thread_cache_pop(cache, object_class, block);
}

void *allocate_zeroed(size_t size, size_t alignment) {
    bool is_zero = false;
    size_t written_size = hardened_here() ? MEDIUM_SIZE_MAX : SMALL_SIZE_MAX;
    void *block = size > written_size ? allocate_entering(size, alignment, &is_zero)
                                      : allocate_aligned(size, alignment);
    return block && !is_zero ? memset(block, 0, size) : block;
}

static void release_large(void *block) {
    struct span *span = span_of_heap_slice((uintptr_t)block); /* it begins there */
    if (PRIM_UNLIKELY(span->sampled)) {
        sampler_end(block, 0);
    }
    large_release(span);
}

PRIM_NOINLINE void release_slow(void *block) {
    release_slower(block, __builtin_return_address(0));
}

/* Without a cache the block goes straight to its slab. Returns its class; that of small ones for
 * what a hardened heap has dealt with; 0 for what is not ours, and NULL, and then nothing is
 * done. */
static unsigned release_any(struct thread_cache *cache, void *block) {
    if (hardened_is_on() && hardened_release(block)) {
        return CLASS_OF_8;
    }
    unsigned object_class = span_class_of(block);
    if (object_class == 0) {
        return 0;
    }
    if (PRIM_UNLIKELY(options_see_every_call())) {
        see_free(block);
    }
    if (object_class == CLASS_LARGE) {
        release_large(block);
    } else if (object_class == CLASS_ARENA) {
        arena_release(block);
    } else if (object_class == CLASS_PLACED) {
        sampler_release_placed(block);
    } else if (cache && !hardened_is_on()) { /* whose bins stay empty */
        thread_cache_overflow(cache, object_class, block);
    } else {
        slab_release_block(object_class, block);
    }
    return object_class;
}

/* Many programs free NULL as often as a block. */
PRIM_NOINLINE void release_slower(void *block, const void *caller) {
    if (!block) {
        return;
    }
    struct thread_cache *cache = thread_cache_visible;
    if (PRIM_UNLIKELY(!cache->rest)) { /* else it is the thread's own, and the thread outside */
        if (thread_cache_is_inside()) {
            reserve_defer(block);
            return;
        }
        cache = thread_cache_own();
    }
    thread_cache_enter_shortly();
    unsigned object_class = release_any(cache, block);
    thread_cache_leave();
    if (object_class) {
        maintenance_consider(caller, object_class == CLASS_LARGE);
    } else {
        foreign_release(block);
    }
}

/* Who looks for leaks takes what stands in freed memory for pointers. */
static void wipe(void *block) {
    if (PRIM_UNLIKELY(options.leak_check)) {
        memset(block, 0, bits_min(usable_size(block), WIPED_MOST));
    }
}

void release_moved(void *block) {
    wipe(block);
    release_slow(block);
}

void release_past_bins(void *block) {
    wipe(block);
    if (PRIM_LIKELY(thread_cache_enter())) {
        release_any(NULL, block);
        thread_cache_leave();
    } else {
        reserve_defer(block);
    }
}
