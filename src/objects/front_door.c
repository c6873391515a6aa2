/* front_door.c - see front_door.h. What is watched stands in cold functions of its own: the others
 * keep ending in jumps. */
#include "objects/front_door.h"

#include <string.h>

#include "objects/allocate.h"
#include "objects/hardened.h"
#include "objects/thread_sampler.h"
#include "pages/span.h"

PRIM_COLD void *front_allocate_watched(struct arena *arena, struct arena_request wanted,
                                       enum call call, const void *caller) {
    const struct request request = {.size = wanted.size,
                                    .alignment = wanted.alignment,
                                    .is_zeroed = call == CALL_CALLOC,
                                    .stated_size = SIZE_NOT_STATED,
                                    .call = call,
                                    .caller = caller,
                                    .arena = arena,
                                    .offset = wanted.offset};
    return watcher_allocate(&request);
}

static PRIM_COLD void *allocate_watched(size_t size, size_t alignment, enum call call,
                                        const void *caller) {
    return front_allocate_watched(NULL, (struct arena_request){size, alignment, 0}, call, caller);
}

static PRIM_COLD void *reallocate_watched(void *block, size_t size, const void *caller) {
    const struct request request = {
        .size = size, .stated_size = SIZE_NOT_STATED, .call = CALL_REALLOC, .caller = caller};
    return watcher_reallocate(block, &request);
}

static PRIM_COLD void release_watched(void *block, size_t stated_size, size_t alignment,
                                      enum call call, const void *caller) {
    const struct request request = {
        .stated_size = stated_size, .alignment = alignment, .call = call, .caller = caller};
    watcher_release(block, &request);
}

/* Not in a signal handler that may have interrupted the granting. */
static PRIM_COLD void *malloc_wished(size_t size, const void *caller) {
    if (!thread_cache_is_inside()) {
        load_acquire(&watcher_wish)->grant(); /* order pair: wish */
    }
    return front_allocate(size, 0, CALL_MALLOC, caller);
}

PRIM_NOINLINE void *front_malloc(size_t size) {
    struct hardened_cache *hardened = hardened_here();
    if (hardened) {
        return hardened_malloc(size, hardened);
    }
    if (PRIM_UNLIKELY(watcher_is_any())) {
        return allocate_watched(size, 0, CALL_MALLOC, __builtin_return_address(0));
    }
    if (PRIM_UNLIKELY(watcher_is_wished())) {
        return malloc_wished(size, __builtin_return_address(0));
    }
    return allocate_slower(size);
}

/* A medium block of a thread that samples, or what is greater. */
PRIM_INLINE void *malloc_counted(size_t size) {
    struct thread_cache *cache = thread_cache_visible;
    if (PRIM_LIKELY(size > cache->counted_size_max)) {
        return front_malloc(size);
    }
    void *block = thread_sampler_take_medium(cache, size_class_by_arithmetic(size));
    return PRIM_LIKELY(block != NULL) ? block : front_malloc(size);
}

PRIM_NOINLINE void *front_malloc_medium(size_t size) {
    return allocate_medium_or(size, malloc_counted, front_malloc);
}

PRIM_NOINLINE void *front_calloc(size_t size) {
    void *block =
        size > SMALL_SIZE_MAX ? allocate_medium_or(size, allocate_nothing, allocate_nothing) : NULL;
    if (PRIM_LIKELY(block != NULL)) {
        return memset(block, 0, size);
    }
    if (PRIM_UNLIKELY(watcher_is_any())) {
        return allocate_watched(size, 0, CALL_CALLOC, __builtin_return_address(0));
    }
    return allocate_zeroed(size, 0);
}

void *front_allocate(size_t size, size_t alignment, enum call call, const void *caller) {
    if (PRIM_UNLIKELY(watcher_is_any())) {
        return allocate_watched(size, alignment, call, caller);
    }
    return alignment ? allocate_aligned(size, alignment) : allocate_slow(size);
}

/* Who has no block yet, as interpreters that ask realloc for all, is served as by malloc. */
PRIM_NOINLINE void *front_realloc(void *block, size_t size) {
    void *fresh = block ? NULL : allocate_or(size, allocate_nothing, allocate_nothing);
    return fresh ? fresh : front_reallocate(block, size, __builtin_return_address(0));
}

void *front_reallocate(void *block, size_t size, const void *caller) {
    if (PRIM_UNLIKELY(watcher_is_any())) {
        return reallocate_watched(block, size, caller);
    }
    if (PRIM_UNLIKELY(size == 0 && block)) {
        release(block);
        return NULL;
    }
    return reallocate(block, size);
}

/* For a thread without a hardened heap's arrays. */
PRIM_INLINE void release_plainly(void *block, size_t stated_size, size_t alignment, enum call call,
                                 const void *caller) {
    if (PRIM_UNLIKELY(watcher_is_any())) {
        release_watched(block, stated_size, alignment, call, caller);
    } else {
        release_slower(block, caller);
    }
}

PRIM_NOINLINE void front_free(void *block) {
    struct hardened_cache *hardened = hardened_here();
    if (PRIM_UNLIKELY(hardened != NULL)) {
        hardened_free(block, hardened);
        return;
    }
    release_plainly(block, SIZE_NOT_STATED, 0, CALL_FREE, __builtin_return_address(0));
}

PRIM_NOINLINE void front_free_sized(void *block, size_t size) {
    front_release(block, size, 0, CALL_FREE, __builtin_return_address(0));
}

PRIM_NOINLINE void front_free_aligned_sized(void *block, size_t alignment, size_t size) {
    front_release(block, size, alignment, CALL_FREE, __builtin_return_address(0));
}

void front_release(void *block, size_t stated_size, size_t alignment, enum call call,
                   const void *caller) {
    struct hardened_cache *hardened = hardened_here();
    if (PRIM_UNLIKELY(hardened != NULL)) {
        hardened_free(block, hardened);
        return;
    }
    release_plainly(block, stated_size, alignment, call, caller);
}

size_t front_usable_size(const void *block) {
    return PRIM_UNLIKELY(watcher_is_any()) ? watcher_usable_size(block) : usable_size(block);
}

/* A watcher may have put something behind the block. */
bool front_expand(void *block, size_t size) {
    return PRIM_UNLIKELY(watcher_is_any()) ? block && size <= watcher_usable_size(block)
                                           : expand(block, size);
}
