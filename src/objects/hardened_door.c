/* hardened_door.c - malloc and free of a thread that has arrays (hardened.h). */
#include "objects/hardened.h"

#include <string.h>

#include "objects/hardened_bin.h"
#include "objects/hardened_block.h"
#include "objects/sampler.h"
#include "objects/slow_door.h"

enum { INLINE_CLEAR = 64 }; /* bytes that are cleared quicker than a function is called */

static PRIM_COLD void *malloc_beside(size_t size, const void *touched) {
    hardened_complain("written after free", "malloc", touched);
    return allocate_slower(size);
}

static PRIM_NOINLINE void *malloc_again(size_t size, struct hardened_cache *own,
                                        unsigned object_class) {
    return hardened_bin_turn(own, object_class) ? hardened_malloc(size, thread_cache_visible)
                                                : allocate_slower(size);
}

void *hardened_malloc(size_t size, struct thread_cache *cache) {
    if (PRIM_UNLIKELY(size > MEDIUM_SIZE_MAX) || PRIM_UNLIKELY(sampler_was_started())) {
        return allocate_slower(size);
    }
    unsigned object_class = PRIM_LIKELY(size <= SMALL_SIZE_MAX) ? cache->class_of[size]
                                                                : size_class_by_arithmetic(size);
    struct hardened_cache *own = cache->hardened;
    struct hardened_bin *bin = &own->bins[object_class];
    PRIM_FORGET(bin);
    if (PRIM_UNLIKELY(hardened_bin_is_empty(bin))) {
        return malloc_again(size, own, object_class);
    }
    void *block = hardened_bin_pop(bin);
    return PRIM_LIKELY(hardened_is_untouched(block)) ? hardened_begin(block, object_class)
                                                     : malloc_beside(size, block);
}

static PRIM_NOINLINE void clear_and_keep(struct hardened_bin *bin, unsigned object_class,
                                         void *block) {
    if (bin->clear_size) {
        memset(block, 0, bin->clear_size);
    }
    hardened_bin_push(bin, object_class, block);
}

/* Whole units, at most INLINE_CLEAR bytes: some are written twice. */
PRIM_INLINE void clear_inline(char *block, size_t size) {
    typedef uint64_t unit __attribute__((vector_size(HARDENED_UNIT), may_alias));
    unit *end = (unit *)(block + size);
    ((unit *)block)[0] = end[-1] = (unit){0};
    if (size > 2 * sizeof(unit)) {
        ((unit *)block)[1] = end[-2] = (unit){0};
    }
}

PRIM_NOINLINE void hardened_free(void *block, struct hardened_cache *own) {
    unsigned object_class = hardened_end(block);
    if (PRIM_UNLIKELY(!object_class)) {
        release_slower(block, __builtin_return_address(0));
        return;
    }
    struct hardened_bin *bin = &own->bins[object_class];
    PRIM_FORGET(bin);
    if (PRIM_UNLIKELY(bin->clear_size - 1 >= INLINE_CLEAR)) {
        clear_and_keep(bin, object_class, block);
        return;
    }
    clear_inline(block, bin->clear_size);
    hardened_bin_push(bin, object_class, block);
}
