/* What the tests of the thread's cache share. */
#ifndef TESTS_UNIT_THREAD_CACHE_CHECK_H
#define TESTS_UNIT_THREAD_CACHE_CHECK_H

#include "objects/allocate.h"
#include "objects/bin.h"
#include "objects/heap.h"
#include "objects/thread_cache.h"
#include "pages/sparse.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { BLOCKS = 3000 };

static struct options defaults;
static void *blocks[BLOCKS];

static inline int length(const void *list) {
    int count = 0;
    for (; list; list = *(void *const *)list) {
        count++;
    }
    return count;
}

/* What thread_cache.h promises of a cache between two calls. */
static inline void check_cache(struct thread_cache *cache) {
    size_t bytes = 0;
    for (unsigned i = 1; i <= CLASS_COUNT; i++) {
        const struct bin *bin = bin_of(cache, i);
        CHECK(cache->room[i] + length(cache->head[i]) == bin_head_most(bin),
              "bin %u: room %d, %d blocks, capacity %u", i, cache->room[i], length(cache->head[i]),
              bin->capacity);
        CHECK(length(bin->spare) == bin->spare_count, "bin %u: %d spare blocks of %u", i,
              length(bin->spare), bin->spare_count);
        bytes += (size_t)bin->capacity * size_classes[i].size;
    }
    for (unsigned i = 0; i < BIN_COUNT; i = i ? i + 1 : CLASS_COUNT + 1) {
        CHECK(cache->room[i] == 0 && !cache->head[i], "bin %u is in use", i);
    }
    CHECK(cache->capacity_bytes == bytes, "%zu bytes of capacity, %zu counted", bytes,
          cache->capacity_bytes);
}

static inline struct thread_cache *fresh_cache(void) {
    heap_ensure();
    options = defaults;
    store_relaxed(&sparse_is_on, false); /* a test before may have left its blocks untouched */
    struct thread_cache *cache = thread_cache_own();
    CHECK(cache != NULL, "the thread has no cache");
    thread_cache_apply_options();
    thread_cache_flush(cache);
    return cache;
}

static inline void allocate_many(size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = allocate(size);
        CHECK(blocks[i] != NULL, "no memory");
    }
}

#endif
