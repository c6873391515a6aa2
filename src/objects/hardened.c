/* hardened.c - see hardened.h. */
#include "objects/hardened.h"

#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "objects/foreign.h"
#include "objects/hardened_slab.h"
#include "objects/sampler.h"
#include "os/machine.h"
#include "os/process.h"
#include "pages/metadata.h"

enum {
    BIN_MAX = 32,           /* blocks of a class that a thread keeps */
    BIN_SIZE = 32 * 1024,   /* bytes of them, but one block at least */
    WAITING_MAX = 256,      /* blocks in quarantine */
    QUARANTINE_DIVISOR = 8, /* greater parts of the quarantine do not enter it */
};

struct waiting {
    struct hardened_block block;
    uint32_t size;
    uint32_t object_class;
};

struct hardened_cache {
    uint64_t random;                  /* (owner) state of the generator */
    size_t waiting_bytes;             /* (owner) in quarantine */
    unsigned waiting_first;           /* (owner) number of the one that came first */
    unsigned waiting_end;             /* (owner) number of the next one that comes */
    uint8_t counts[CLASS_COUNT + 1];  /* (owner) blocks in each bin */
    uint8_t rooms[CLASS_COUNT + 1];   /* (owner) how many it may hold */
    struct waiting ring[WAITING_MAX]; /* (owner) the quarantine */
    struct hardened_block bins[CLASS_COUNT + 1][BIN_MAX]; /* (owner) */
};

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

static PRIM_COLD struct hardened_cache *make_cache(struct thread_cache *cache) {
    struct hardened_cache *own = metadata_allocate(sizeof *own, PRIM_CACHE_LINE);
    if (own) {
        own->random = machine_random() ^ (uintptr_t)cache;
        for (unsigned i = 1; i <= CLASS_COUNT; i++) {
            own->rooms[i] = (uint8_t)bits_clamp(BIN_SIZE / size_classes[i].size, 1, BIN_MAX);
        }
    }
    cache->hardened = own;
    return own;
}

PRIM_INLINE struct hardened_cache *cache_of(struct thread_cache *cache) {
    struct hardened_cache *own = cache ? cache->hardened : NULL;
    return PRIM_LIKELY(own != NULL) ? own : cache ? make_cache(cache) : NULL;
}

/* Gives half of a full bin back. */
static PRIM_NOINLINE void make_bin_room(struct hardened_cache *own, unsigned object_class) {
    struct hardened_block *bin = own->bins[object_class];
    unsigned count = own->counts[object_class];
    unsigned half = (count + 1) / 2;
    hardened_slab_give(object_class, bin, half);
    memmove(bin, bin + half, (count - half) * sizeof *bin);
    own->counts[object_class] = (uint8_t)(count - half);
}

PRIM_INLINE void keep(struct hardened_cache *own, unsigned object_class,
                      struct hardened_block block) {
    if (PRIM_UNLIKELY(own->counts[object_class] >= own->rooms[object_class])) {
        make_bin_room(own, object_class);
    }
    own->bins[object_class][own->counts[object_class]++] = block;
}

PRIM_INLINE void leave_quarantine(struct hardened_cache *own) {
    const struct waiting *first = &own->ring[own->waiting_first++ % WAITING_MAX];
    own->waiting_bytes -= first->size;
    keep(own, first->object_class, first->block);
}

PRIM_INLINE void wait_in_quarantine(struct hardened_cache *own, unsigned object_class,
                                    struct hardened_block block, size_t size) {
    size_t limit = options.quarantine;
    if (size > limit / QUARANTINE_DIVISOR) {
        keep(own, object_class, block);
        return;
    }
    own->ring[own->waiting_end++ % WAITING_MAX] =
        (struct waiting){block, (uint32_t)size, object_class};
    own->waiting_bytes += size;
    while (own->waiting_bytes > limit || own->waiting_end - own->waiting_first == WAITING_MAX) {
        leave_quarantine(own);
    }
}

/* One of the bin's blocks, whichever. */
static struct hardened_block choose(struct hardened_cache *own, unsigned object_class) {
    struct hardened_block *bin = own->bins[object_class];
    unsigned last = --own->counts[object_class];
    own->random = own->random * 6364136223846793005u + 1442695040888963407u;
    unsigned chosen = (unsigned)((own->random >> 32) * (last + 1) >> 32);
    struct hardened_block block = bin[chosen];
    bin[chosen] = bin[last];
    return block;
}

static PRIM_NOINLINE bool refill(struct hardened_cache *own, unsigned object_class) {
    unsigned wanted = (own->rooms[object_class] + 1u) / 2;
    own->counts[object_class] =
        (uint8_t)hardened_slab_take(object_class, own->bins[object_class], wanted, &own->random);
    return own->counts[object_class] != 0;
}

/* Whether nobody has written to the block since it was freed; else it is nobody's anymore. */
PRIM_INLINE bool is_untouched(const void *block) {
    const uint64_t *words = block;
    if (PRIM_LIKELY((words[0] | words[1]) == 0) || options.zero_max < 16) {
        return true;
    }
    complain("written after free", "malloc", block);
    return false;
}

static PRIM_COLD void *allocate_without_cache(unsigned object_class) {
    struct hardened_block block;
    uint64_t random = machine_random();
    if (hardened_slab_take(object_class, &block, 1, &random) == 0) {
        return NULL;
    }
    store_relaxed(block.state, HARDENED_LIVE);
    return block.address;
}

void *hardened_allocate(struct thread_cache *cache, unsigned object_class) {
    struct hardened_cache *own = cache_of(cache);
    if (PRIM_UNLIKELY(!own)) {
        return allocate_without_cache(object_class);
    }
    for (;;) {
        if (PRIM_UNLIKELY(own->counts[object_class] == 0) && !refill(own, object_class)) {
            return NULL;
        }
        struct hardened_block block = choose(own, object_class);
        store_relaxed(block.state, HARDENED_LIVE);
        if (PRIM_LIKELY(is_untouched(block.address))) {
            return block.address;
        }
    }
}

/* All of a block up to options.zero_max; of greater ones so much at their beginning, where links
 * and pointers to functions mostly are. */
PRIM_INLINE void clear(void *block, size_t size) {
    memset(block, 0, bits_min(size, options.zero_max));
}

/* Blocks that are spans of their own: freed, they are nobody's at once. */
static void clear_other(unsigned object_class, void *block) {
    struct span *span = span_of_block(block);
    bool is_span = object_class == CLASS_LARGE || object_class <= CLASS_COUNT;
    if (!is_span || span_state(span) != SPAN_LARGE) {
        return;
    }
    clear(block, span_size(span));
}

bool hardened_check(const char *call, const void *block) {
    unsigned object_class = span_class_of(block);
    if (object_class == 0) {
        bool is_libcs = foreign_usable_size(block) != 0;
        if (!is_libcs) {
            complain("no block, or freed before", call, block);
        }
        return is_libcs;
    }
    if (object_class > CLASS_COUNT) {
        return true;
    }
    struct hardened_slab *slab = hardened_slab_of(block);
    _Atomic uint8_t *state = slab ? hardened_slab_state(slab, block) : NULL;
    if (slab && (!state || load_relaxed(state) != HARDENED_LIVE)) {
        complain(state ? "freed before" : "no block", call, block);
        return false;
    }
    return true;
}

bool hardened_release(struct thread_cache *cache, void *block) {
    unsigned object_class = span_class_of(block);
    if (PRIM_UNLIKELY(object_class == 0)) {
        return !block || !hardened_check("free", block);
    }
    struct hardened_slab *slab = object_class <= CLASS_COUNT ? hardened_slab_of(block) : NULL;
    if (!slab) {
        clear_other(object_class, block);
        return false;
    }
    struct hardened_block freed = {block, hardened_slab_state(slab, block)};
    if (PRIM_UNLIKELY(!freed.state)) {
        complain("no block", "free", block);
        return true;
    }
    /* Two threads that free a block at the very same moment may both see it live: an atomic
     * exchange here would cost as much as all the rest. */
    if (PRIM_UNLIKELY(load_relaxed(freed.state) != HARDENED_LIVE)) {
        complain("freed before", "free", block);
        return true;
    }
    store_relaxed(freed.state, HARDENED_HELD);
    clear(block, slab->size);
    struct hardened_cache *own = cache_of(cache);
    if (PRIM_LIKELY(own != NULL)) {
        wait_in_quarantine(own, object_class, freed, slab->size);
    } else {
        hardened_slab_give(object_class, &freed, 1);
    }
    return true;
}

void hardened_flush(struct thread_cache *cache) {
    struct hardened_cache *own = cache->hardened;
    while (own && own->waiting_end != own->waiting_first) {
        leave_quarantine(own);
    }
    for (unsigned object_class = 1; own && object_class <= CLASS_COUNT; object_class++) {
        hardened_slab_give(object_class, own->bins[object_class], own->counts[object_class]);
        own->counts[object_class] = 0;
    }
}
