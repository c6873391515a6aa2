/* hardened.c - see hardened.h. */
#include "objects/hardened.h"

#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "objects/foreign.h"
#include "objects/hardened_bin.h"
#include "objects/hardened_slab.h"
#include "objects/large.h"
#include "objects/sampler.h"
#include "objects/slow_door.h"
#include "os/machine.h"
#include "os/process.h"

enum { INLINE_CLEAR = 64 }; /* bytes that are cleared quicker than a function is called */

/* Ends the program, unless the user wants to hear only. */
static PRIM_COLD void complain(const char *what, const char *call, const void *block) {
    char text[128];
    struct print out = print_to(text, sizeof text);
    print_text(&out, "primalloc: ");
    print_text(&out, what);
    print_text(&out, ": ");
    print_text(&out, call);
    print_text(&out, " of ");
    print_hexadecimal(&out, (uintptr_t)block);
    print_text(&out, "\n");
    process_write_error(text, out.length);
    if (!options.hardened_go_on) {
        abort();
    }
}

/* Whether nobody has written to the block since it was freed. */
PRIM_INLINE bool is_untouched(const void *block) {
    const uint64_t *words = block;
    return PRIM_LIKELY((words[0] | words[1]) == 0) || options.zero_max < HARDENED_UNIT;
}

/* The block is the program's. */
PRIM_INLINE void *begin(void *block, unsigned object_class) {
    struct hardened_states *states =
        load_relaxed(&hardened_states[(uintptr_t)block >> CHUNK_SHIFT]);
    store_relaxed(hardened_state(states, block), (uint8_t)object_class);
    return block;
}

/* A block that was written to is nobody's anymore. */
static PRIM_NOINLINE void *allocate_with_care(struct hardened_cache *own, unsigned object_class) {
    struct hardened_bin *bin = &own->bins[object_class];
    while (!hardened_bin_is_empty(bin) || hardened_bin_turn(own, object_class) ||
           hardened_bin_refill(own, object_class)) {
        void *block = hardened_bin_pop(bin);
        if (is_untouched(block)) {
            return begin(block, object_class);
        }
        complain("written after free", "malloc", block);
    }
    return NULL;
}

static PRIM_NOINLINE void *malloc_again(size_t size, struct hardened_cache *own,
                                        unsigned object_class) {
    return hardened_bin_turn(own, object_class) ? allocate_with_care(own, object_class)
                                                : allocate_slower(size);
}

static PRIM_COLD void *malloc_beside(size_t size, const void *touched) {
    complain("written after free", "malloc", touched);
    return allocate_slower(size);
}

PRIM_INLINE void *allocate_ready(size_t size, unsigned object_class, struct hardened_cache *own) {
    struct hardened_bin *bin = &own->bins[object_class];
    PRIM_FORGET(bin);
    if (PRIM_UNLIKELY(hardened_bin_is_empty(bin))) {
        return malloc_again(size, own, object_class);
    }
    void *block = hardened_bin_pop(bin);
    return PRIM_LIKELY(is_untouched(block)) ? begin(block, object_class)
                                            : malloc_beside(size, block);
}

void *hardened_malloc(size_t size, struct thread_cache *cache) {
    if (PRIM_UNLIKELY(size > MEDIUM_SIZE_MAX) || sampler_was_started()) {
        return allocate_slower(size);
    }
    unsigned object_class =
        size <= SMALL_SIZE_MAX ? cache->class_of[size] : size_class_by_arithmetic(size);
    return allocate_ready(size, object_class, cache->hardened);
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
    return hardened_slab_take(object_class, &block, 1, &random) ? begin(block, object_class) : NULL;
}

/* The class of the live block that begins here, which ends; 0 if none does. Two threads that free a
 * block at the very same moment may both see it live: an exchange costs as much as all the rest. */
PRIM_INLINE unsigned end(void *block) {
    struct hardened_states *states = hardened_states_of(block);
    if (PRIM_UNLIKELY(!states) || PRIM_UNLIKELY((uintptr_t)block % HARDENED_UNIT != 0)) {
        return 0;
    }
    _Atomic uint8_t *state = hardened_state(states, block);
    unsigned object_class = load_relaxed(state);
    if (PRIM_LIKELY(object_class)) {
        store_relaxed(state, 0);
    }
    return object_class;
}

static PRIM_NOINLINE void clear_and_keep(struct hardened_bin *bin, unsigned object_class,
                                         void *block) {
    memset(block, 0, bin->clear_size);
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
    unsigned object_class = end(block);
    if (PRIM_UNLIKELY(!object_class)) {
        release_slower(block, __builtin_return_address(0));
        return;
    }
    struct hardened_bin *bin = &own->bins[object_class];
    PRIM_FORGET(bin);
    if (PRIM_UNLIKELY(bin->clear_size > INLINE_CLEAR)) {
        clear_and_keep(bin, object_class, block);
        return;
    }
    if (PRIM_LIKELY(bin->clear_size)) {
        clear_inline(block, bin->clear_size);
    }
    hardened_bin_push(bin, object_class, block);
}

/* Why a pointer is no live block. */
static PRIM_COLD void complain_of(const char *call, const void *block, unsigned object_class) {
    if (object_class == 0) {
        complain("no block, or freed before", call, block);
        return;
    }
    struct hardened_slab *slab = hardened_slab_of(block);
    uint32_t index = hardened_slab_index(slab, block);
    bool is_block = (uintptr_t)block == slab->start + (uintptr_t)index * slab->size;
    complain(is_block && index < slab->count ? "freed before" : "no block", call, block);
}

/* A block that is served from elsewhere: large, an arena's, libc's, one of before the options were
 * read. */
static PRIM_NOINLINE bool is_other(const void *block, unsigned object_class) {
    if (object_class == 0) {
        return foreign_usable_size(block) != 0;
    }
    return object_class > CLASS_COUNT || !hardened_slab_of(block);
}

static PRIM_NOINLINE bool is_live(const void *block) {
    struct hardened_states *states = hardened_states_of(block);
    return states && load_relaxed(hardened_state(states, block)) &&
           (uintptr_t)block % HARDENED_UNIT == 0;
}

bool hardened_check(const char *call, const void *block) {
    unsigned object_class = span_class_of(block);
    if (is_live(block) || is_other(block, object_class)) {
        return true;
    }
    complain_of(call, block, object_class);
    return false;
}

/* All of a block up to options.zero_max; of greater ones so much at their beginning, where links
 * and pointers to functions mostly are. */
static void clear(void *block, size_t size) {
    memset(block, 0, bits_min(size, options.zero_max));
}

PRIM_COLD bool hardened_release(struct thread_cache *cache, void *block) {
    if (is_live(block)) {
        struct hardened_cache *own = cache_of(cache);
        if (own) {
            hardened_free(block, own);
        } else {
            unsigned object_class = end(block);
            clear(block, size_classes[object_class].size);
            hardened_slab_give(&block, 1);
        }
        return true;
    }
    unsigned object_class = span_class_of(block);
    if (!block || !is_other(block, object_class)) {
        if (block) {
            complain_of("free", block, object_class);
        }
        return true;
    }
    bool is_span = object_class && object_class <= CLASS_LARGE;
    if (is_span && span_state(span_of_block(block)) == SPAN_LARGE) {
        clear(block, span_size(span_of_block(block))); /* it is nobody's at once */
    }
    return false;
}

PRIM_COLD void hardened_flush(struct thread_cache *cache) {
    struct hardened_cache *own = cache->hardened;
    for (unsigned object_class = 1; own && object_class <= CLASS_COUNT; object_class++) {
        hardened_bin_flush(&own->bins[object_class], object_class);
    }
}

PRIM_COLD void hardened_trim(void) {
    if (hardened_is_on()) {
        hardened_slab_trim();
        large_trim();
    }
}
