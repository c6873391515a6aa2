/* hardened_slab.c - see hardened_slab.h. */
#include "objects/hardened_slab.h"

#include <string.h>

#include "objects/sampler.h"
#include "os/lock.h"
#include "os/memory.h"
#include "pages/metadata.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "settings/options.h"

enum {
    GUARD_EVERY = 4,      /* one slab in so many ends with a forbidden slice */
    ROOM_FROM_COUNT = 16, /* slabs of so many blocks give one up for a random start */
    OPEN_SIZE = 4096,     /* bytes opened at a time */
};

static struct set {
    struct lock lock;
    struct hardened_slab *partial; /* (lock: HARDENED) slabs with free blocks */
    struct hardened_slab *unused;  /* (lock: HARDENED) descriptors without a slab */
} sets[CLASS_COUNT + 1];

PRIM_INLINE uint32_t below(uint64_t *random, uint32_t limit) {
    return (uint32_t)((sampler_random(random) >> 32) * limit >> 32);
}

static void insert(struct set *set, struct hardened_slab *slab) {
    slab->previous = NULL;
    slab->next = set->partial;
    if (slab->next) {
        slab->next->previous = slab;
    }
    set->partial = slab;
}

static void remove_slab(struct set *set, struct hardened_slab *slab) {
    if (slab->next) {
        slab->next->previous = slab->previous;
    }
    if (slab->previous) {
        slab->previous->next = slab->next;
    } else {
        set->partial = slab->next;
    }
}

static struct hardened_slab *make_descriptor(struct set *set, unsigned object_class) {
    lock_acquire(&set->lock, LOCK_HARDENED);
    struct hardened_slab *slab = set->unused;
    if (slab) {
        set->unused = slab->next;
    }
    lock_release(&set->lock, LOCK_HARDENED);
    if (!slab) {
        slab = metadata_allocate(sizeof *slab + size_classes[object_class].capacity, 16);
    }
    if (slab) {
        slab->size = size_classes[object_class].size;
        slab->reciprocal = (((uint64_t)1 << 40) + slab->size - 1) / slab->size;
    }
    return slab;
}

static void keep_descriptor(struct set *set, struct hardened_slab *slab) {
    if (slab) {
        lock_acquire(&set->lock, LOCK_HARDENED);
        slab->next = set->unused;
        set->unused = slab;
        lock_release(&set->lock, LOCK_HARDENED);
    }
}

/* Where the first block begins: at any multiple of what the class's size is a multiple of, so that
 * aligned blocks stay so. */
static void choose_start(struct hardened_slab *slab, unsigned object_class, uint64_t *random) {
    const struct size_class *class = &size_classes[object_class];
    size_t unit = bits_min(slab->size & (0 - slab->size), 4096);
    slab->count = class->capacity - (class->capacity >= ROOM_FROM_COUNT);
    size_t slack = (size_t) class->slices * SLICE_SIZE - (size_t)slab->count * slab->size;
    slab->start = slab->span->address + unit * below(random, (uint32_t)(slack / unit + 1));
}

static struct hardened_slab *make_slab(struct set *set, unsigned object_class, uint64_t *random) {
    struct hardened_slab *slab = make_descriptor(set, object_class);
    size_t slices = size_classes[object_class].slices;
    bool has_guard = below(random, GUARD_EVERY) == 0;
    struct span *span = slab ? page_heap_allocate(slices + has_guard, 0) : NULL;
    if (!span) {
        keep_descriptor(set, slab);
        return NULL;
    }
    slab->span = span;
    slab->has_guard =
        has_guard && memory_forbid((void *)(span->address + slices * SLICE_SIZE), SLICE_SIZE);
    choose_start(slab, object_class, random);
    slab->open_count = 0;
    slab->free_count = 0;
    for (uint32_t i = 0; i < slab->count; i++) {
        store_relaxed(&slab->states[i], HARDENED_FREE);
    }
    span->free_blocks = slab;
    span->bucket = HARDENED_BUCKET;
    span_publish(span, SPAN_SLAB, object_class);
    return slab;
}

static void end_slab(struct set *set, struct hardened_slab *slab) {
    struct span *span = slab->span;
    if (slab->has_guard) {
        memory_commit((void *)(span_end(span) - SLICE_SIZE), SLICE_SIZE);
    }
    span->free_blocks = NULL;
    span->bucket = 0;
    span_withdraw(span);
    purge_free(span, SPAN_DIRTY);
    keep_descriptor(set, slab);
}

/* With the lock held: lets blocks of another page's worth be taken. All that is free is zero. */
static void open_more(struct hardened_slab *slab) {
    uint32_t more = (uint32_t)bits_max(OPEN_SIZE / slab->size, 1);
    more = (uint32_t)bits_min(more, slab->count - slab->open_count);
    if (!slab->span->is_zero) {
        void *first = (void *)(slab->start + (uintptr_t)slab->open_count * slab->size);
        memset(first, 0, (size_t)more * slab->size);
    }
    slab->open_count += more;
    slab->free_count += more;
}

static void take_one(struct hardened_slab *slab, uint32_t index, struct hardened_block *block) {
    store_relaxed(&slab->states[index], HARDENED_HELD);
    slab->free_count--;
    *block = (struct hardened_block){(void *)(slab->start + (uintptr_t)index * slab->size),
                                     &slab->states[index]};
}

/* With the lock held: a few throws, then whatever is free behind one. */
static unsigned take_from(struct hardened_slab *slab, struct hardened_block *blocks,
                          unsigned wanted, uint64_t *random) {
    unsigned taken = 0;
    wanted = (unsigned)bits_min(wanted, slab->free_count);
    for (unsigned i = 0; i < wanted; i++) {
        uint32_t index = below(random, slab->open_count);
        if (load_relaxed(&slab->states[index]) == HARDENED_FREE) {
            take_one(slab, index, &blocks[taken++]);
        }
    }
    for (uint32_t index = below(random, slab->open_count); taken < wanted; index++) {
        index = index < slab->open_count ? index : 0;
        if (load_relaxed(&slab->states[index]) == HARDENED_FREE) {
            take_one(slab, index, &blocks[taken++]);
        }
    }
    return taken;
}

unsigned hardened_slab_take(unsigned object_class, struct hardened_block *blocks, unsigned wanted,
                            uint64_t *random) {
    struct set *set = &sets[object_class];
    unsigned taken = 0;
    for (;;) {
        lock_acquire(&set->lock, LOCK_HARDENED);
        struct hardened_slab *slab = set->partial;
        if (slab) {
            if (slab->free_count == 0) {
                open_more(slab);
            }
            taken = take_from(slab, blocks, wanted, random);
            if (slab->free_count == 0 && slab->open_count == slab->count) {
                remove_slab(set, slab);
            }
        }
        lock_release(&set->lock, LOCK_HARDENED);
        if (taken) {
            return taken;
        }
        slab = make_slab(set, object_class, random);
        if (!slab) {
            return 0;
        }
        lock_acquire(&set->lock, LOCK_HARDENED);
        insert(set, slab);
        lock_release(&set->lock, LOCK_HARDENED);
    }
}

/* With the lock held: true if the slab is the caller's to end. One without used blocks stays while
 * it is the only one that has room. */
static bool give_one(struct set *set, struct hardened_slab *slab,
                     const struct hardened_block *block) {
    bool was_full = slab->free_count == 0 && slab->open_count == slab->count;
    store_relaxed(block->state, HARDENED_FREE);
    slab->free_count++;
    if (was_full) {
        insert(set, slab);
    }
    if (slab->free_count < slab->open_count || (slab == set->partial && !slab->next)) {
        return false;
    }
    remove_slab(set, slab);
    return true;
}

void hardened_slab_give(unsigned object_class, const struct hardened_block *blocks,
                        unsigned count) {
    struct set *set = &sets[object_class];
    for (unsigned i = 0; i < count;) {
        struct hardened_slab *emptied = NULL;
        lock_acquire(&set->lock, LOCK_HARDENED);
        for (; i < count && !emptied; i++) {
            struct hardened_slab *slab = hardened_slab_of(blocks[i].address);
            if (give_one(set, slab, &blocks[i])) {
                emptied = slab;
            }
        }
        lock_release(&set->lock, LOCK_HARDENED);
        if (emptied) {
            end_slab(set, emptied);
        }
    }
}

/* Only where there may be such slabs. */
static unsigned class_last(void) {
    return options.hardened ? CLASS_COUNT : 0;
}

void hardened_slab_fork_prepare(void) {
    for (unsigned object_class = 1; object_class <= class_last(); object_class++) {
        lock_acquire_unranked(&sets[object_class].lock);
    }
}

void hardened_slab_fork_parent(void) {
    for (unsigned object_class = 1; object_class <= class_last(); object_class++) {
        lock_release_unranked(&sets[object_class].lock);
    }
}

void hardened_slab_fork_child(void) {
    for (unsigned object_class = 1; object_class <= class_last(); object_class++) {
        lock_reset(&sets[object_class].lock);
    }
}
