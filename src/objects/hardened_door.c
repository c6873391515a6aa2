/* hardened_door.c - malloc and free of a thread that has arrays (hardened.h). */
#include "objects/hardened.h"

#include <string.h>

#include "objects/hardened_bin.h"
#include "objects/hardened_block.h"
#include "objects/sampler.h"
#include "objects/size_table.h"
#include "objects/slow_door.h"

/* The block that would go out next is not all zero: mostly there is none. Where free makes nothing
 * zero that says nothing. */
static PRIM_NOINLINE void *malloc_again(size_t size, struct hardened_cache *own,
                                        unsigned object_class) {
    struct hardened_bin *bin = &own->bins[object_class];
    if ((!hardened_bin_is_empty(bin) || hardened_bin_turn(own, object_class)) &&
        hardened_is_untouched(*bin->top)) {
        return hardened_begin(hardened_bin_pop(bin), object_class);
    }
    return allocate_slower(size); /* which complains, if need be */
}

PRIM_INLINE void *take(size_t size, struct hardened_cache *own, unsigned object_class) {
    struct hardened_bin *bin = &own->bins[object_class];
    PRIM_FORGET(bin);
    void *block = *bin->top;
    if (!hardened_is_zero(block)) {
        return malloc_again(size, own, object_class);
    }
    hardened_bin_pop(bin);
    return hardened_begin(block, object_class);
}

static PRIM_NOINLINE void *malloc_other(size_t size, struct hardened_cache *own) {
    return size <= MEDIUM_SIZE_MAX && !sampler_was_started() ? take(size, own, size_class_of(size))
                                                             : allocate_slower(size);
}

void *hardened_malloc(size_t size, struct hardened_cache *own) {
    return PRIM_LIKELY(size < load_relaxed(&sampler_size_min))
               ? take(size, own, size_table_bin(size))
               : malloc_other(size, own);
}

typedef uint64_t unit __attribute__((vector_size(HARDENED_UNIT), may_alias));

static PRIM_NOINLINE void clear_otherwise(void *block, unsigned object_class,
                                          struct hardened_bin *bin) {
    memset(block, 0, bits_min(size_classes[object_class].size, options.zero_max));
    hardened_bin_push(block, object_class, bin);
}

PRIM_NOINLINE void hardened_free(void *block, struct hardened_cache *own) {
    unsigned object_class = hardened_end(block);
    if (PRIM_UNLIKELY(!object_class)) {
        release_slower(block, __builtin_return_address(0));
        return;
    }
    struct hardened_bin *bin = &own->bins[object_class];
    PRIM_FORGET(bin);
    size_t last = bin->clear_last;
    if (PRIM_UNLIKELY(last == CLEAR_OTHERWISE)) {
        clear_otherwise(block, object_class, bin);
        return;
    }
    size_t step = bin->clear_step;
    char *begin = block;
    char *end = begin + last;
    *(unit *)begin = *(unit *)end = *(unit *)(begin + step) = *(unit *)(end - step) = (unit){0};
    hardened_bin_push(block, object_class, bin);
}
