/* hardened.c - see hardened.h. */
#include "objects/hardened.h"

#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "objects/foreign.h"
#include "objects/hardened_slab.h"
#include "objects/sampler.h"
#include "objects/slow_door.h"
#include "os/machine.h"
#include "os/process.h"
#include "pages/metadata.h"

enum {
    READY_MAX = 32,         /* blocks of a class that a thread keeps ready */
    READY_SIZE = 32 * 1024, /* bytes of them, but one block at least */
    REFILL_MIN = 4,    /* blocks that a class in use gets first; then twice as many each time */
    WAITING_MAX = 32,  /* blocks of a class in quarantine */
    INLINE_CLEAR = 64, /* bytes that are cleared quicker than a function is called */
};

struct bin {
    void *next;                 /* (owner) the block that goes out next; NULL: none is ready */
    uint32_t ready_count;       /* (owner) of others */
    uint32_t ready_room;        /* (owner) how many there may be */
    uint32_t clear_size;        /* (owner) bytes of a freed block that become zero */
    uint32_t waiting_room;      /* (owner) places in the quarantine: a power of two, or 0 */
    uint32_t waiting_next;      /* (owner) the place of the block that has waited longest */
    uint32_t refill_count;      /* (owner) */
    void *ready[READY_MAX];     /* (owner) */
    void *waiting[WAITING_MAX]; /* (owner) a ring; NULL where none has waited yet */
};

struct hardened_cache {
    uint64_t random; /* (owner) state of the generator */
    struct bin bins[CLASS_COUNT + 1];
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

static void set_up(struct bin *bin, size_t size) {
    bin->ready_room = (uint32_t)bits_clamp(READY_SIZE / size, 1, READY_MAX);
    bin->refill_count = (uint32_t)bits_min(bin->ready_room, REFILL_MIN);
    size_t waiting = bits_min(options.quarantine / size, WAITING_MAX);
    bin->waiting_room = waiting ? 1u << bits_highest(waiting) : 0;
    bin->clear_size = (uint32_t)bits_min(size, bits_round_up(options.zero_max, 16));
}

/* A cache's arrays stay with it, whoever's it will be. */
static PRIM_COLD struct hardened_cache *make_cache(struct thread_cache *cache) {
    struct hardened_cache *own = metadata_allocate(sizeof *own, PRIM_CACHE_LINE);
    if (own) {
        own->random = machine_random() ^ (uintptr_t)cache;
        for (unsigned i = 1; i <= CLASS_COUNT; i++) {
            set_up(&own->bins[i], size_classes[i].size);
        }
    }
    cache->hardened = own;
    return own;
}

/* Of the ready blocks, one by a throw goes out next: it is on its way from memory until then. */
PRIM_INLINE void choose_next(struct hardened_cache *own, struct bin *bin) {
    void *block = NULL;
    uint32_t count = bin->ready_count;
    if (PRIM_LIKELY(count != 0)) {
        void **chosen = &bin->ready[hardened_throw(&own->random, count)];
        block = *chosen;
        *chosen = bin->ready[count - 1];
        bin->ready_count = count - 1;
        __builtin_prefetch(block, 1);
    }
    bin->next = block;
}

static PRIM_NOINLINE bool refill(struct hardened_cache *own, unsigned object_class) {
    struct bin *bin = &own->bins[object_class];
    bin->ready_count =
        hardened_slab_take(object_class, bin->ready, bin->refill_count, &own->random);
    bin->refill_count =
        (uint32_t)bits_min((size_t)2 * bin->refill_count, (bin->ready_room + 1) / 2);
    choose_next(own, bin);
    return bin->next != NULL;
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
    struct bin *bin = &own->bins[object_class];
    while (bin->next || refill(own, object_class)) {
        void *block = bin->next;
        choose_next(own, bin);
        if (is_untouched(block)) {
            return begin(block, object_class);
        }
        complain("written after free", "malloc", block);
    }
    return NULL;
}

static PRIM_COLD void *malloc_beside(size_t size, const void *touched) {
    complain("written after free", "malloc", touched);
    return allocate_slower(size);
}

void *hardened_malloc(size_t size, struct thread_cache *cache) {
    if (PRIM_UNLIKELY(size > MEDIUM_SIZE_MAX) || sampler_was_started()) {
        return allocate_slower(size);
    }
    unsigned object_class =
        size <= SMALL_SIZE_MAX ? cache->class_of[size] : size_class_by_arithmetic(size);
    struct bin *bin = &cache->hardened->bins[object_class];
    PRIM_FORGET(bin);
    void *block = bin->next;
    if (PRIM_UNLIKELY(!block)) {
        return allocate_slower(size);
    }
    choose_next(cache->hardened, bin);
    return PRIM_LIKELY(is_untouched(block)) ? begin(block, object_class)
                                            : malloc_beside(size, block);
}

void *hardened_allocate(struct thread_cache *cache, unsigned object_class) {
    struct hardened_cache *own = cache ? cache->hardened : NULL;
    own = own || !cache ? own : make_cache(cache);
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

/* Gives half of a full bin back, those that came first. */
static PRIM_NOINLINE void overflow(struct bin *bin, void *block) {
    thread_cache_nest();
    unsigned half = (bin->ready_count + 1) / 2;
    hardened_slab_give(bin->ready, half);
    bin->ready_count -= half;
    memmove(bin->ready, bin->ready + half, bin->ready_count * sizeof bin->ready[0]);
    bin->ready[bin->ready_count++] = block;
    thread_cache_leave();
}

/* The block has no secrets anymore. */
PRIM_INLINE void keep(struct bin *bin, void *block) {
    if (PRIM_LIKELY(bin->waiting_room)) {
        uint32_t next = bin->waiting_next;
        void *eldest = bin->waiting[next];
        bin->waiting[next] = block;
        bin->waiting_next = (next + 1) & (bin->waiting_room - 1);
        block = eldest;
        if (PRIM_UNLIKELY(!block)) {
            return;
        }
    }
    uint32_t count = bin->ready_count;
    if (PRIM_UNLIKELY(!bin->next)) {
        bin->next = block;
        return;
    }
    if (PRIM_UNLIKELY(count >= bin->ready_room)) {
        overflow(bin, block);
        return;
    }
    bin->ready[count] = block;
    bin->ready_count = count + 1;
}

static PRIM_NOINLINE void clear_and_keep(struct bin *bin, void *block) {
    memset(block, 0, bin->clear_size);
    keep(bin, block);
}

/* Whole units, at most INLINE_CLEAR bytes: too much is written twice rather than guessed. */
PRIM_INLINE void clear_inline(char *block, size_t size) {
    typedef uint64_t unit __attribute__((vector_size(HARDENED_UNIT), may_alias));
    size_t last = size - sizeof(unit);
    *(unit *)block = (unit){0};
    *(unit *)(block + bits_min(sizeof(unit), last)) = (unit){0};
    *(unit *)(block + bits_min(2 * sizeof(unit), last)) = (unit){0};
    *(unit *)(block + last) = (unit){0};
}

PRIM_NOINLINE void hardened_free(void *block, struct hardened_cache *own) {
    unsigned object_class = end(block);
    if (PRIM_UNLIKELY(!object_class)) {
        release_slower(block, __builtin_return_address(0));
        return;
    }
    struct bin *bin = &own->bins[object_class];
    PRIM_FORGET(bin);
    if (bin->clear_size > INLINE_CLEAR) {
        clear_and_keep(bin, block);
        return;
    }
    if (PRIM_LIKELY(bin->clear_size)) {
        clear_inline(block, bin->clear_size);
    }
    keep(bin, block);
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
        if (cache && cache->hardened) {
            hardened_free(block, cache->hardened);
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
        struct bin *bin = &own->bins[object_class];
        for (unsigned i = 0; i < bin->waiting_room && bin->waiting[i]; i++) {
            hardened_slab_give(&bin->waiting[i], 1);
            bin->waiting[i] = NULL;
        }
        bin->waiting_next = 0;
        if (bin->next) {
            hardened_slab_give(&bin->next, 1);
            bin->next = NULL;
        }
        hardened_slab_give(bin->ready, bin->ready_count);
        bin->ready_count = 0;
    }
}

PRIM_COLD void hardened_trim(void) {
    if (hardened_is_on()) {
        hardened_slab_trim();
    }
}
