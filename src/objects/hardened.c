/* hardened.c - see hardened.h. */
#include "objects/hardened.h"

#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "objects/call_counts.h"
#include "objects/hardened_bin.h"
#include "objects/hardened_block.h"
#include "objects/hardened_slab.h"
#include "objects/large.h"
#include "objects/sampler.h"
#include "objects/slow_door.h"
#include "os/machine.h"
#include "os/process.h"

PRIM_COLD void hardened_complain(const char *what, const char *call, const void *block) {
    char text[128];
    struct print out = print_to(text, sizeof text);
    print_format(&out, "primalloc: %s: %s of %#lx\n", what, call, (uintptr_t)block);
    process_write_error(text, out.length);
    if (!options.hardened_go_on) {
        abort();
    }
}

/* A block that was written to is nobody's anymore. */
static PRIM_NOINLINE void *allocate_with_care(struct hardened_cache *own, unsigned object_class) {
    struct hardened_bin *bin = &own->bins[object_class];
    while (!hardened_bin_is_empty(bin) || hardened_bin_turn(own, object_class) ||
           hardened_bin_refill(own, object_class)) {
        void *block = hardened_bin_pop(bin);
        if (hardened_is_untouched(block)) {
            return hardened_begin(block, object_class);
        }
        hardened_complain("written after free", "malloc", block);
    }
    return NULL;
}

/* NULL for a thread without a cache, or without memory. */
static struct hardened_cache *cache_of(struct thread_cache *cache) {
    return !cache ? NULL : cache->hardened ? cache->hardened : hardened_bins_make(cache);
}

void *hardened_allocate(struct thread_cache *cache, unsigned object_class) {
    struct hardened_cache *own = cache_of(cache);
    if (own) {
        return allocate_with_care(own, object_class);
    }
    void *block;
    uint64_t random = machine_random();
    return hardened_slab_take(object_class, &block, 1, &random)
               ? hardened_begin(block, object_class)
               : NULL;
}

/* Why a pointer is no live block. */
static PRIM_COLD void complain_of(const char *call, const void *block, unsigned object_class) {
    if (object_class == 0 || object_class > CLASS_COUNT) {
        hardened_complain("no block, or freed before", call, block);
        return;
    }
    struct hardened_slab *slab = hardened_slab_of(block);
    uint32_t index = hardened_slab_index(slab, block);
    bool is_block = (uintptr_t)block == slab->start + (uintptr_t)index * slab->size;
    hardened_complain(is_block && index < slab->count ? "freed before" : "no block", call, block);
}

/* A block that is served from elsewhere: large, an arena's, libc's, one of before the options were
 * read. The first slice of a large block leads to it, but only its beginning is one to be freed;
 * whoever has placed a block complains by himself. */
static PRIM_NOINLINE bool is_other(const void *block, unsigned object_class) {
    if (object_class == 0 || object_class == CLASS_ARENA) {
        return usable_size(block) != 0;
    }
    if (object_class == CLASS_LARGE) {
        return (uintptr_t)block % SLICE_SIZE == 0;
    }
    return object_class > CLASS_COUNT || !hardened_slab_of(block);
}

/* The byte of a live block, or NULL. */
static PRIM_NOINLINE _Atomic uint8_t *live_state(const void *block) {
    _Atomic uint8_t *state = hardened_state_of(block);
    return state && load_relaxed(state) ? state : NULL;
}

/* Who meets another pointer that is no block counts it. */
PRIM_INLINE bool is_to_be_counted(unsigned object_class) {
    return object_class == 0 || object_class > CLASS_LARGE;
}

bool hardened_check(const char *call, const void *block) {
    unsigned object_class = span_class_of(block);
    if (live_state(block) || is_other(block, object_class)) {
        return true;
    }
    complain_of(call, block, object_class);
    return is_to_be_counted(object_class);
}

/* All of a block up to options.zero_max; of greater ones so much at their beginning, where links
 * and pointers to functions mostly are. */
static void clear(void *block, size_t size) {
    memset(block, 0, bits_min(size, options.zero_max));
}

PRIM_COLD bool hardened_release(void *block) {
    _Atomic uint8_t *state = live_state(block);
    if (state) {
        struct hardened_cache *own = cache_of(thread_cache_own());
        unsigned object_class = load_relaxed(state);
        if (options.stats) {
            call_counts_frees(object_class, 1);
        }
        if (own) {
            hardened_free(block, own);
        } else {
            store_relaxed(state, 0);
            clear(block, size_classes[object_class].size);
            hardened_slab_give(&block, 1);
        }
        return true;
    }
    unsigned object_class = span_class_of(block);
    if (!is_other(block, object_class)) {
        complain_of("free", block, object_class);
        return !is_to_be_counted(object_class);
    }
    return false;
}

PRIM_COLD void hardened_flush(struct thread_cache *cache) {
    struct hardened_cache *own = cache->hardened;
    for (unsigned object_class = 1; own && object_class <= CLASS_COUNT; object_class++) {
        hardened_bin_flush(own, object_class);
    }
}

PRIM_COLD void hardened_trim(void) {
    if (hardened_is_on()) {
        hardened_slab_trim();
        large_trim();
    }
}
