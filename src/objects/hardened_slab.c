/* hardened_slab.c - see hardened_slab.h. */
#include "objects/hardened_slab.h"

#include <string.h>

#include "objects/hardened_depot.h"
#include "objects/thread_cache.h"
#include "os/memory.h"
#include "pages/limits.h"
#include "pages/mapping.h"
#include "pages/metadata.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "settings/options.h"

enum {
    SHARD_COUNT = 8,        /* sets of slabs for each class: threads of a shard share one */
    GUARD_EVERY = 8,        /* one slab in so many ends with a forbidden slice, ... */
    GUARD_DENSE = 4 << 20,  /* ... while the heap has no more address space than this; later */
    GUARD_SPARSE = 8 << 20, /* one in so many bytes, or there could be no huge pages */
    ROOM_FROM_COUNT = 16,   /* slabs of so many blocks give one up for a random start */
    OPEN_SIZE = 4096,       /* bytes opened at a time */
    RUN_MAX = 16,           /* blocks taken by one throw */
    GIVE_MAX = 32,          /* blocks given back under one lock */
    KEPT_DIVISOR = 8, /* such a part of a set's slabs may be kept without use, guards and all */
};

static PRIM_FAR struct hardened_set sets[SHARD_COUNT][CLASS_COUNT + 1];

struct hardened_set *hardened_set_here(unsigned object_class) {
    return &sets[thread_cache_shard() % SHARD_COUNT][object_class];
}

bool hardened_set_may_keep(const struct hardened_set *set, size_t bytes) {
    size_t most = load_relaxed(&set->bytes) / KEPT_DIVISOR;
    return set->kept_bytes + bytes <= most && !limits_are_pressed();
}

/* What most programs never touch of it costs address space only. */
static PRIM_COLD bool make_states(uintptr_t chunk) {
    struct hardened_states *expected = NULL;
    if (load_relaxed(&span_table->states[chunk])) {
        return true;
    }
    bool is_writable = span_commit_entry(&span_table->states[chunk]);
    struct hardened_states *fresh = is_writable ? memory_map(sizeof *fresh) : NULL;
    if (fresh) {
        memory_advise_huge(fresh, sizeof *fresh, false);
        memory_name(fresh, sizeof *fresh, "primalloc states");
        /* order pair: hardened states */
        if (!compare_exchange_release(&span_table->states[chunk], &expected, fresh)) {
            memory_unmap(fresh, sizeof *fresh);
        }
    }
    return fresh != NULL;
}

static bool has_states(const struct span *span) {
    return make_states(span->address >> CHUNK_SHIFT) &&
           make_states((span_end(span) - 1) >> CHUNK_SHIFT);
}

static void insert(struct hardened_set *set, struct hardened_slab *slab) {
    slab->previous = NULL;
    slab->next = set->partial;
    if (slab->next) {
        slab->next->previous = slab;
    }
    set->partial = slab;
}

static void remove_slab(struct hardened_set *set, struct hardened_slab *slab) {
    if (slab->next) {
        slab->next->previous = slab->previous;
    }
    if (slab->previous) {
        slab->previous->next = slab->next;
    } else {
        set->partial = slab->next;
    }
}

static PRIM_COLD struct hardened_slab *make_descriptor(struct hardened_set *set,
                                                       unsigned object_class) {
    lock_acquire(&set->lock, LOCK_HARDENED);
    struct hardened_slab *slab = set->unused;
    if (slab) {
        set->unused = slab->next;
    }
    lock_release(&set->lock, LOCK_HARDENED);
    if (!slab) {
        size_t words = (size_classes[object_class].capacity + 63u) / 64;
        slab = metadata_allocate(sizeof *slab + words * sizeof slab->free[0], 16);
    }
    if (slab) {
        slab->size = size_classes[object_class].size;
        slab->reciprocal = (((uint64_t)1 << 40) + slab->size - 1) / slab->size;
    }
    return slab;
}

static PRIM_COLD void keep_descriptor(struct hardened_set *set, struct hardened_slab *slab) {
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
    size_t unit = bits_min(slab->size & (0 - slab->size), SLICE_SIZE);
    slab->count = class->capacity - (class->capacity >= ROOM_FROM_COUNT);
    size_t slack = (size_t) class->slices * SLICE_SIZE - (size_t)slab->count * slab->size;
    slab->start = slab->span->address + unit * hardened_throw(random, (uint32_t)(slack / unit + 1));
}

static bool throw_guard(size_t slices, uint64_t *random) {
    bool is_dense = load_relaxed(&page_heap.mapped_slices) <= GUARD_DENSE / SLICE_SIZE;
    size_t every = is_dense ? GUARD_EVERY : GUARD_SPARSE / SLICE_SIZE / slices;
    return hardened_throw(random, (uint32_t)every) == 0;
}

/* A span with or without a guard behind the slices of its slab. */
static struct span *take_span(size_t slices, bool has_guard) {
    struct span *span = page_heap_allocate(slices + has_guard, 0);
    if (span && !has_states(span)) {
        purge_free(span, SPAN_DIRTY);
        span = NULL;
    }
    return span;
}

PRIM_INLINE void *block_at(const struct hardened_slab *slab, uint32_t index) {
    return (void *)(slab->start + (uintptr_t)index * slab->size);
}

/* What lies in a span that was used before is nobody's business. */
static void clear_blocks(const struct hardened_slab *slab) {
    if (options.zero_max >= slab->size) {
        memset(block_at(slab, 0), 0, (size_t)slab->count * slab->size);
        return;
    }
    for (uint32_t i = 0; i < slab->count; i++) {
        memset(block_at(slab, i), 0, options.zero_max);
    }
}

static PRIM_COLD struct hardened_slab *make_slab(struct hardened_set *set, unsigned object_class,
                                                 uint64_t *random) {
    struct hardened_slab *slab = make_descriptor(set, object_class);
    size_t slices = size_classes[object_class].slices;
    bool has_guard = throw_guard(slices, random);
    struct span *span = slab ? take_span(slices, has_guard) : NULL;
    if (!span) {
        keep_descriptor(set, slab);
        return NULL;
    }
    slab->set = set;
    slab->span = span;
    slab->has_guard = has_guard && mapping_forbid(span->address + slices * SLICE_SIZE);
    choose_start(slab, object_class, random);
    if (!span->is_zero) {
        clear_blocks(slab);
    }
    slab->open_count = 0;
    slab->free_count = 0;
    memset(slab->free, 0, (slab->count + 63) / 64 * sizeof slab->free[0]);
    span->free_blocks = slab;
    span->bucket = HARDENED_BUCKET;
    span_publish(span, SPAN_SLAB, object_class);
    return slab;
}

static size_t slab_bytes(const struct hardened_slab *slab) {
    return span_size(slab->span);
}

/* The slab serves. */
static PRIM_COLD void begin_slab(struct hardened_slab *slab) {
    struct hardened_set *set = slab->set;
    lock_acquire(&set->lock, LOCK_HARDENED);
    insert(set, slab);
    add_relaxed(&set->bytes, slab_bytes(slab));
    lock_release(&set->lock, LOCK_HARDENED);
}

/* Gives an empty slab to the page heap; where a limit on data forbids that its guard becomes
 * writable again, it goes on serving. */
static PRIM_COLD void end_slab(struct hardened_slab *slab) {
    struct hardened_set *set = slab->set;
    struct span *span = slab->span;
    if (slab->has_guard && !mapping_allow(span_end(span) - SLICE_SIZE)) {
        begin_slab(slab);
        return;
    }
    span->free_blocks = NULL;
    span->bucket = 0;
    span_withdraw(span);
    purge_free(span, SPAN_DIRTY);
    keep_descriptor(set, slab);
}

/* With the lock held: lets blocks of another page's worth be taken. Untouched pages are written to:
 * malloc looks at a block before the program writes to it, and a page that was read first costs two
 * faults, the second of which interrupts every processor that runs one of our threads. */
static void open_more(struct hardened_slab *slab) {
    uint32_t more = (uint32_t)bits_max(OPEN_SIZE / slab->size, 1);
    uint32_t end = (uint32_t)bits_min(slab->open_count + more, slab->count);
    uintptr_t page = 0;
    slab->free_count += end - slab->open_count;
    for (uint32_t i = slab->open_count; i < end; i++) {
        uintptr_t block = (uintptr_t)block_at(slab, i);
        slab->free[i / 64] |= (uint64_t)1 << i % 64;
        if (slab->span->is_zero && block / OPEN_SIZE != page) {
            page = block / OPEN_SIZE;
            *(volatile uint64_t *)block = 0;
        }
    }
    slab->open_count = end;
}

/* With the lock held, and blocks free: some that follow one another, behind a throw. */
static unsigned take_run(struct hardened_slab *slab, void **blocks, unsigned wanted,
                         uint64_t *random) {
    uint32_t index = hardened_throw(random, slab->open_count);
    uint32_t last = (slab->open_count - 1) / 64;
    uint32_t word = index / 64;
    uint64_t bits = slab->free[word] & ~(uint64_t)0 << index % 64;
    while (!bits) {
        word = word < last ? word + 1 : 0;
        bits = slab->free[word];
    }
    unsigned taken = 0;
    for (; bits && taken < wanted && taken < RUN_MAX; bits &= bits - 1) {
        blocks[taken++] = block_at(slab, word * 64 + bits_lowest(bits));
        slab->free[word] &= ~(bits & (0 - bits));
    }
    slab->free_count -= taken;
    return taken;
}

/* With the lock held: a slab that was kept for this, or NULL. */
static PRIM_COLD struct hardened_slab *use_empty(struct hardened_set *set) {
    struct hardened_slab *slab = set->empty;
    if (slab) {
        set->empty = slab->next;
        set->kept_bytes -= slab_bytes(slab);
        insert(set, slab);
    }
    return slab;
}

/* With the lock held: whether the slab is kept. */
static PRIM_COLD bool keep_empty(struct hardened_set *set, struct hardened_slab *slab) {
    size_t bytes = slab_bytes(slab);
    if (!hardened_set_may_keep(set, bytes)) {
        subtract_relaxed(&set->bytes, bytes);
        return false;
    }
    set->kept_bytes += bytes;
    slab->next = set->empty;
    set->empty = slab;
    return true;
}

/* Some blocks of the set's, or none. */
static unsigned take_from(struct hardened_set *set, void **blocks, unsigned wanted,
                          uint64_t *random) {
    unsigned taken = 0;
    lock_acquire(&set->lock, LOCK_HARDENED);
    struct hardened_slab *slab = set->partial ? set->partial : use_empty(set);
    if (slab) {
        if (slab->free_count == 0) {
            open_more(slab);
        }
        while (taken < wanted && slab->free_count) {
            taken += take_run(slab, blocks + taken, wanted - taken, random);
        }
        if (slab->free_count == 0 && slab->open_count == slab->count) {
            remove_slab(set, slab);
        }
    }
    lock_release(&set->lock, LOCK_HARDENED);
    return taken;
}

/* The blocks of other shards go out before there is another slab. */
unsigned hardened_slab_take(unsigned object_class, void **blocks, unsigned wanted,
                            uint64_t *random) {
    struct hardened_set *here = hardened_set_here(object_class);
    for (;;) {
        unsigned taken = take_from(here, blocks, wanted, random);
        for (unsigned i = 0; i < SHARD_COUNT && !taken; i++) {
            struct hardened_set *set = &sets[i][object_class];
            if (set != here && load_relaxed(&set->bytes)) {
                taken = take_from(set, blocks, wanted, random);
            }
        }
        if (taken) {
            return taken;
        }
        struct hardened_slab *slab = make_slab(here, object_class, random);
        if (!slab) {
            return 0;
        }
        begin_slab(slab);
    }
}

/* With the lock held: true if the slab is the caller's to end. One slice without used blocks stays
 * while it is the only one that has room. */
static bool give_one(struct hardened_slab *slab, const void *block) {
    struct hardened_set *set = slab->set;
    bool was_full = slab->free_count == 0 && slab->open_count == slab->count;
    uint32_t index = hardened_slab_index(slab, block);
    slab->free[index / 64] |= (uint64_t)1 << index % 64;
    slab->free_count++;
    if (was_full) {
        insert(set, slab);
    }
    bool is_only = slab == set->partial && !slab->next && slab_bytes(slab) == SLICE_SIZE;
    if (slab->free_count < slab->open_count || is_only) {
        return false;
    }
    remove_slab(set, slab);
    return !keep_empty(set, slab);
}

static PRIM_COLD void end_slabs(struct hardened_slab *slab) {
    while (slab) {
        struct hardened_slab *next = slab->next;
        end_slab(slab);
        slab = next;
    }
}

/* Which slabs they belong to is known before a lock is taken: the blocks are the caller's. Then set
 * by set, each locked once. */
static void give_some(void *const *blocks, unsigned count) {
    struct hardened_slab *slabs[GIVE_MAX];
    struct hardened_slab *emptied = NULL;
    for (unsigned i = 0; i < count; i++) {
        slabs[i] = hardened_slab_of(blocks[i]);
        __builtin_prefetch(slabs[i]->free, 1);
    }
    for (unsigned first = 0; first < count; first++) {
        struct hardened_set *set = slabs[first] ? slabs[first]->set : NULL;
        if (!set) {
            continue;
        }
        lock_acquire(&set->lock, LOCK_HARDENED);
        for (unsigned i = first; i < count; i++) {
            struct hardened_slab *slab = slabs[i];
            if (slab && slab->set == set) {
                slabs[i] = NULL;
                if (give_one(slab, blocks[i])) {
                    slab->next = emptied;
                    emptied = slab;
                }
            }
        }
        lock_release(&set->lock, LOCK_HARDENED);
    }
    end_slabs(emptied);
}

void hardened_slab_give(void *const *blocks, unsigned count) {
    for (unsigned done = 0; done < count; done += GIVE_MAX) {
        give_some(blocks + done, (unsigned)bits_min(count - done, GIVE_MAX));
    }
}

static void trim(struct hardened_set *set) {
    hardened_depot_trim(set);
    lock_acquire(&set->lock, LOCK_HARDENED);
    struct hardened_slab *emptied = set->empty;
    set->empty = NULL;
    for (struct hardened_slab *slab = emptied; slab; slab = slab->next) {
        set->kept_bytes -= slab_bytes(slab);
        subtract_relaxed(&set->bytes, slab_bytes(slab));
    }
    lock_release(&set->lock, LOCK_HARDENED);
    end_slabs(emptied);
}

static void prepare_fork(struct hardened_set *set) {
    lock_acquire_unranked(&set->lock);
}

static void end_fork(struct hardened_set *set) {
    lock_release_unranked(&set->lock);
}

static void reset_lock(struct hardened_set *set) {
    lock_reset(&set->lock);
}

/* Only where there may be such slabs. */
static PRIM_COLD void for_each_set(void (*visit)(struct hardened_set *set)) {
    size_t count = options.hardened ? sizeof sets / sizeof sets[0][0] : 0;
    for (size_t i = 0; i < count; i++) {
        visit(&sets[0][0] + i);
    }
}

void hardened_slab_trim(void) {
    for_each_set(trim);
}

void hardened_slab_fork_prepare(void) {
    for_each_set(prepare_fork);
}

void hardened_slab_fork_parent(void) {
    for_each_set(end_fork);
}

void hardened_slab_fork_child(void) {
    for_each_set(reset_lock);
}
