/* allocate.h - read this first: the whole of malloc and free for small blocks.
 *
 * malloc(24): its size class stands in a table of bytes; the class's bin in the thread's cache is a
 * list; pop its head. free(p): the byte map tells p's class; push p on that bin, whoever's slab it
 * came from. No atomics, no locks, no page metadata, and one rare branch each:
 *
 *   malloc leaves it when the bin is empty, which is also how a thread without a cache, a class
 *   never used before and the watching of calls look (their bins are empty);
 *   free leaves it when the bin is full, which is also how NULL, foreign and large pointers
 *   (classes 0 and CLASS_LARGE), blocks of other heaps (CLASS_ARENA) or of a sampler's user
 *   (CLASS_PLACED), a thread without a cache and the watching of calls look.
 *
 * The program's calls leave through front_door.h, where somebody may watch; behind it is
 * slow_door.h. */
#ifndef PRIM_OBJECTS_ALLOCATE_H
#define PRIM_OBJECTS_ALLOCATE_H

#include "objects/size_table.h"
#include "objects/slow_door.h"
#include "objects/thread_cache.h"
#include "pages/address_map.h"

typedef void *allocate_fallback(size_t size);

/* A fallback: the caller sees to it. */
PRIM_INLINE void *allocate_nothing(size_t size) {
    (void)size;
    return NULL;
}

/* A block of at least size bytes, or what one of the fallbacks, reached in a jump, returns: that
 * for greater sizes, or that for an empty bin. The next one is fetched from memory meanwhile:
 * blocks that were freed in no order are in no cache, and who pops one waits for its link. */
PRIM_INLINE void *allocate_or(size_t size, allocate_fallback *greater, allocate_fallback *empty) {
    if (PRIM_UNLIKELY(size > SMALL_SIZE_MAX)) {
        return greater(size);
    }
    struct thread_cache *cache = thread_cache_visible;
    unsigned object_class = size_table_bin(size);
    void *block = cache->head[object_class];
    PRIM_IN_RESULT(block);
    if (PRIM_UNLIKELY(!block)) {
        return empty(size);
    }
    __builtin_prefetch(*(void **)block, 1);
    cache->head[object_class] = *(void **)block;
    cache->room[object_class]++;
    return block;
}

/* The same for sizes above SMALL_SIZE_MAX. Medium ones find their class by arithmetic; large ones,
 * and all of a thread that samples, are greater ones here. */
PRIM_INLINE void *allocate_medium_or(size_t size, allocate_fallback *greater,
                                     allocate_fallback *empty) {
    struct thread_cache *cache = thread_cache_visible;
    if (PRIM_UNLIKELY(size > cache->medium_size_max)) {
        return greater(size);
    }
    size_t object_class = size_class_by_arithmetic(size);
    void *block = cache->head[object_class];
    PRIM_IN_RESULT(block);
    if (PRIM_UNLIKELY(!block)) {
        return empty(size);
    }
    PRIM_FORGET(object_class);
    __builtin_prefetch(*(void **)block, 1);
    cache->head[object_class] = *(void **)block;
    cache->room[object_class]++;
    return block;
}

/* Takes a block back into the thread's cache, if it is one that has a place there. The mask is
 * address_map_mask, or 0, by which none has. */
PRIM_INLINE bool release_masked_to_cache(void *block, uintptr_t mask) {
    struct thread_cache *cache = thread_cache_visible;
    size_t object_class = address_map_masked_class(block, mask);
    if (PRIM_UNLIKELY(compiler_is_spent(&cache->room[object_class]))) {
        return false;
    }
    PRIM_FORGET(object_class);
    *(void **)block = cache->head[object_class];
    cache->head[object_class] = block;
    cache->room[object_class]--;
    return true;
}

PRIM_INLINE bool release_to_cache(void *block) {
    return release_masked_to_cache(block, address_map_mask);
}

/* For the library itself, whom nobody watches. */
PRIM_INLINE void *allocate(size_t size) {
    return allocate_or(size, allocate_slow, allocate_slow);
}

/* Takes back a block, NULL, or a pointer that is not ours. Keeps errno. */
PRIM_INLINE void release(void *block) {
    if (PRIM_UNLIKELY(!release_to_cache(block))) {
        release_slow(block);
    }
}

#endif
