/* slab.c - see slab.h. */
#include "objects/slab.h"

#include <limits.h>

#include "base/assert.h"
#include "objects/double_free.h"
#include "objects/slab_pages.h"
#include "objects/slab_set.h"
#include "objects/slab_transfer.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/bare.h"
#include "pages/page_heap.h"

enum {
    WHOLE_LIST_SIZE = 2048,          /* slabs of blocks up to this size give their list uncut ... */
    WHOLE_LIST_MOST = 4,             /* ... if it has at most so many times what is wanted */
    CARVE_SIZE_MAX = 16 * 1024,      /* bytes of fresh blocks that one thread takes at once */
    RUN_MAX = 32,                    /* runs of blocks returned under one lock */
    RUN_LENGTH_MAX = SLICE_SIZE / 8, /* blocks that one can have at most */
    RUNS_OF_A_SLAB = 8,              /* take as long to return as a slab to free */
    BLOCKS_OF_A_RUN = 16,            /* take as long to walk as a run to return */
};

/* (atomic: hint) 0 while one thread has been enough; any value up to SHARD_MAX will do */
static _Atomic unsigned shard_count;

void slab_initialise(unsigned wanted) {
    unsigned count = wanted ? wanted : machine_processor_count();
    store_relaxed(&shard_count, count < SHARD_MAX ? count : SHARD_MAX);
}

unsigned slab_shard_count(void) {
    return load_relaxed(&shard_count);
}

unsigned slab_current_shard(void) {
    unsigned count = slab_shard_count();
    return count <= 1 ? 0 : machine_processor() % count;
}

/* Such a thread gets more than it wants: there is nobody else. */
bool slab_is_for_one(void) {
    return load_relaxed(&shard_count) == 0;
}

/* Moves count blocks from the slab's free list to *list, which ends with NULL. */
static void take_blocks(struct slab_set *set, struct span *slab, uint32_t count, void **list) {
    *list = slab->free_blocks;
    if (count == slab->free_count) {
        slab->free_blocks = NULL; /* the list's end is NULL already */
    } else {
        void **last = slab->free_blocks;
        for (uint32_t i = 1; i < count; i++) {
            last = *last;
        }
        slab->free_blocks = *last;
        *last = NULL;
    }
    slab->free_count = (uint16_t)(slab->free_count - count);
    slab->used_count = (uint16_t)(slab->used_count + count);
    set->used_count += count;
    slab_set_count_free(set, -(int32_t)count);
    slab_set_update(set, slab);
}

static unsigned take_partial(struct slab_set *set, unsigned object_class, unsigned wanted,
                             void **list) {
    for (unsigned i = 0; i < BUCKET_COUNT; i++) {
        struct span *slab = set->buckets[i];
        if (slab) {
            bool whole = size_classes[object_class].size <= WHOLE_LIST_SIZE &&
                         (slab_is_for_one() || slab->free_count <= wanted * WHOLE_LIST_MOST);
            uint32_t count =
                whole ? slab->free_count : (uint32_t)bits_min(wanted, slab->free_count);
            take_blocks(set, slab, count, list);
            return count;
        }
    }
    return 0;
}

/* How many fresh blocks leave together, the first of them here. Greater ones are as many as wanted
 * where pages were used before. Else a thread that is alone gets what it wants, and all up to the
 * end of the system's page: the next page stays untouched until it is needed. Among several malloc
 * waits for none of the kernel's pages, which the program may never touch: the first block that
 * starts in one leaves alone, unlinked, and the others of that page the next time, when somebody
 * has written to it. Not so in a huge page, which is there; nor, at the price of a page, where it
 * shares a cache line with the next, which may be another thread's by then: everywhere if several
 * fit in a line, else where a class's first slab begins, as two threads do. */
static unsigned fresh_count(const struct span *slab, uintptr_t start, size_t size,
                            unsigned wanted) {
    size_t page = memory_page_size();
    if (size > WHOLE_LIST_SIZE && !slab->is_zero) {
        return wanted;
    }
    if (slab_is_for_one()) {
        size_t least = bits_round_up(start + size, page) - start;
        return (unsigned)(bits_max(least, bits_min(wanted * size, CARVE_SIZE_MAX)) / size);
    }
    size_t offset = start & (page - 1);
    bool is_first = slab->carved_count == 0 && slab_count(slab->object_class) <= 1;
    bool may_leave = size % PRIM_CACHE_LINE == 0 || (size > PRIM_CACHE_LINE && !is_first);
    bool leaves_alone = offset < size && may_leave && !span_has_mark(start, MARK_HUGE);
    return leaves_alone ? 1 : (unsigned)bits_min(wanted, (page - offset + size - 1) / size);
}

/* Takes blocks that follow one another: fresh ones from the slab being carved, or where there is no
 * such slab sleeping ones, which it wakes. The caller links them, outside the lock: that touches
 * their pages. Where zeros are wanted and there, a fresh block leaves alone and stays untouched. */
static unsigned take_unlinked(struct slab_set *set, unsigned object_class, unsigned wanted,
                              char **first, bool *is_zero) {
    struct span *slab = set->carving;
    size_t size = size_classes[object_class].size;
    if (!slab) {
        unsigned most = (unsigned)bits_max(CARVE_SIZE_MAX / size, 1);
        return set->asleep ? slab_pages_take(set, (unsigned)bits_min(wanted, most), first) : 0;
    }
    uint32_t room = size_classes[object_class].capacity - slab->carved_count;
    uintptr_t start = slab->address + slab->carved_count * size;
    uint32_t count = (uint32_t)bits_min(room, fresh_count(slab, start, size, wanted));
    if (is_zero && slab->is_zero) {
        *is_zero = true;
        count = 1;
    }
    *first = (char *)start;
    slab->carved_count = (uint16_t)(slab->carved_count + count);
    slab->used_count = (uint16_t)(slab->used_count + count);
    set->used_count += count;
    if (count == room) {
        set->carving = NULL;
    }
    return count;
}

static unsigned acquire_single(unsigned object_class, void **list, bool *is_zero) {
    struct span *slab =
        page_heap_allocate_for(size_classes[object_class].slices, 0, 0, object_class);
    if (!slab) {
        return 0;
    }
    if (is_zero) {
        *is_zero = slab->is_zero || bare_clear(slab);
    }
    span_publish_large(slab, object_class);
    *list = (void *)slab->address;
    return 1;
}

static void release_single(unsigned object_class, void *block) {
    struct span *span = span_of_block(block);
    if (PRIM_LIKELY(span_state(span) == SPAN_LARGE && span->object_class == object_class)) {
        purge_free(span, SPAN_DIRTY);
    } else {
        double_free_note(block);
    }
}

static void release_singles(unsigned object_class, void *list) {
    double_free_turn(&list);
    while (list) {
        void *next = *(void **)list;
        release_single(object_class, list);
        list = next;
    }
}

/* Gets a new slab for the set; false when there is no memory. */
static PRIM_COLD bool add_slab(struct slab_set *set, unsigned shard, unsigned object_class) {
    struct span *slab =
        page_heap_allocate_for(size_classes[object_class].slices, 0, 0, object_class);
    if (!slab) {
        return false;
    }
    slab->free_blocks = NULL;
    slab->used_count = 0;
    slab->free_count = 0;
    slab->carved_count = 0;
    slab->asleep_count = 0;
    slab->asleep_pages = 0;
    slab->bucket = BUCKET_NONE;
    store_relaxed(&slab->shard, (uint8_t)shard);
    span_publish(slab, SPAN_SLAB, object_class);
    lock_acquire(&set->lock, LOCK_CLASS);
    bool is_needed = !set->carving;
    if (is_needed) {
        set->carving = slab;
        set->slab_count++;
    }
    lock_release(&set->lock, LOCK_CLASS);
    if (!is_needed) { /* another thread was quicker */
        purge_free(slab, SPAN_DIRTY);
    }
    return true;
}

/* Moves a slab between sets whose locks are both held. */
static void move_slab(struct slab_set *from, struct slab_set *to, unsigned to_shard,
                      struct span *slab) {
    slab_set_remove(from, slab);
    from->slab_count--;
    from->used_count -= slab->used_count;
    slab_set_count_free(from, -(int32_t)slab->free_count);
    slab_set_count_asleep(slab, -1);
    store_release(&slab->shard, (uint8_t)to_shard); /* order pair: shard */
    to->slab_count++;
    to->used_count += slab->used_count;
    slab_set_count_free(to, (int32_t)slab->free_count);
    slab_set_count_asleep(slab, 1);
    slab_set_insert(to, slab, slab_set_bucket_for(slab));
}

/* Takes a slab that is at least a quarter free from another shard that has many free blocks. */
static PRIM_COLD bool steal_slab(struct slab_set *set, unsigned shard, unsigned object_class) {
    uint32_t plenty = size_classes[object_class].capacity;
    bool found = false;
    for (unsigned i = 1, all = load_relaxed(&shard_count); i < all && !found; i++) {
        struct shard *from =
            load_acquire(&slab_shards[(shard + i) % all]); /* order pair: shard table */
        struct slab_set *victim = from ? &from->sets[object_class] : NULL;
        if (!victim || victim == set || load_relaxed(&victim->free_count) < plenty) {
            continue;
        }
        /* Two locks of one rank: the second is only tried, so nobody waits in a circle. */
        lock_acquire(&set->lock, LOCK_CLASS);
        if (lock_try_acquire_unranked(&victim->lock)) {
            struct span *slab = victim->buckets[BUCKET_QUARTER];
            if (slab && slab == victim->carving) { /* its fresh blocks are the victim's */
                slab = slab->next;
            }
            found = slab != NULL;
            if (found) {
                move_slab(victim, set, shard, slab);
            }
            lock_release_unranked(&victim->lock);
        }
        lock_release(&set->lock, LOCK_CLASS);
    }
    return found;
}

/* What the set has at once: a list that was given, a slab's free blocks, or unlinked ones. */
static unsigned take_any(struct shard *shard, unsigned object_class, unsigned wanted, void **list,
                         bool *is_zero) {
    struct slab_set *set = &shard->sets[object_class];
    char *first = NULL;
    lock_acquire(&set->lock, LOCK_CLASS);
    unsigned count = slab_transfer_take(set, &shard->rests[object_class], wanted, list);
    count = count ? count : take_partial(set, object_class, wanted, list);
    unsigned unlinked = count ? 0 : take_unlinked(set, object_class, wanted, &first, is_zero);
    lock_release(&set->lock, LOCK_CLASS);
    if (unlinked) {
        *list = first;
    }
    if (unlinked > 1) { /* a single one stays untouched */
        slab_set_chain(first, unlinked, size_classes[object_class].size, NULL);
    }
    return count + unlinked;
}

unsigned slab_acquire(unsigned shard, unsigned object_class, unsigned wanted, void **list,
                      bool *is_zero) {
    if (slab_set_is_single(object_class)) {
        return acquire_single(object_class, list, is_zero);
    }
    if (load_relaxed(&slab_transfer_is_left[object_class])) {
        store_relaxed(&slab_transfer_is_left[object_class], false);
    }
    struct shard *home = slab_set_shard(shard);
    struct slab_set *set = &home->sets[object_class];
    shard = home == &slab_first_shard ? 0 : shard;
    do {
        unsigned count = take_any(home, object_class, wanted, list, is_zero);
        if (count == 0) {
            unsigned all = load_relaxed(&shard_count);
            count = slab_transfer_steal(shard, all, object_class, wanted, list);
        }
        if (count) {
            return count;
        }
    } while (steal_slab(set, shard, object_class) || add_slab(set, shard, object_class));
    return 0;
}

bool slab_has_free(unsigned shard, unsigned object_class) {
    const struct shard *home = slab_set_shard(shard);
    return load_relaxed(&home->sets[object_class].free_count) ||
           load_relaxed(&home->rests[object_class].listed_count);
}

/* A run: consecutive blocks of a list that lie in one slice of a slab. Many of them are on a stack
 * that may be small. */
struct run {
    char *first;
    struct span *slab; /* one that was emptied, once the run was returned */
    uint16_t count;
    int16_t to_last; /* bytes from first */
};
_Static_assert(SLICE_SIZE <= INT16_MAX && RUN_LENGTH_MAX <= UINT16_MAX, "as a slice is small");

/* Cuts up to so many runs off a list; returns how many. Blocks of different slices of one slab
 * make different runs, which costs a little and is never wrong. A circle is walked until there are
 * so many. */
static unsigned gather_runs(void **list, struct run *runs, unsigned most) {
    struct run *run = runs;
    void *block = *list;
    for (; block && run < runs + most; run++) {
        uintptr_t slice = (uintptr_t)block >> SLICE_SHIFT;
        void *last;
        uint32_t room = RUN_LENGTH_MAX;
        run->first = block;
        run->slab = span_of_block(block);
        do {
            last = block;
            block = *(void **)block;
        } while (--room && (uintptr_t)block >> SLICE_SHIFT == slice); /* NULL lies elsewhere */
        run->to_last = (int16_t)((char *)last - run->first);
        run->count = (uint16_t)(RUN_LENGTH_MAX - room);
    }
    *list = block;
    return (unsigned)(run - runs);
}

/* With a set's lock held: whether a slab of the set can have handed all these blocks out. */
PRIM_INLINE bool is_owed(const struct run *run, unsigned object_class) {
    const struct span *slab = run->slab;
    return slab->object_class == object_class && slab->used_count >= run->count &&
           slab->free_blocks != run->first;
}

/* With the slab's lock held: takes a run back. The set's counts are left to the caller. */
PRIM_INLINE void take_run(const struct run *run) {
    struct span *slab = run->slab;
    *(void **)(run->first + run->to_last) = slab->free_blocks;
    slab->free_blocks = run->first;
    slab->free_count = (uint16_t)(slab->free_count + run->count);
    slab->used_count = (uint16_t)(slab->used_count - run->count);
}

/* The same for a run that may hold blocks that are free already; false where the slab is another
 * one by now, or none, or has all its blocks. */
static PRIM_COLD bool take_with_care(struct slab_set *set, const struct run *run,
                                     unsigned object_class, void **freed_twice) {
    if (!is_owed(run, object_class)) {
        *freed_twice = run->first;
    }
    if (run->slab->object_class != object_class || run->slab->used_count == 0) {
        return false;
    }
    double_free_take(set, run->slab, run->first, run->count);
    return true;
}

/* What a call gives back. */
struct giving {
    int effort;      /* that it may still take: runs, and freed slabs */
    unsigned blocks; /* given back so far */
};

/* Returns runs to their slabs, as long as the call may take; tells how many. A slab with a run
 * still to come cannot be emptied, so it cannot be reused under us; a slab whose last run is in may
 * be, so it is not looked at again. */
static unsigned return_runs(unsigned object_class, struct run *runs, unsigned count,
                            bool is_careful, struct giving *giving) {
    unsigned emptied_count = 0;
    unsigned trusted_class = is_careful ? 0 : object_class; /* 0: no slab's */
    void *freed_twice = NULL;
    const struct run *run = runs;
    const struct run *end = runs + count;
    int effort = giving->effort;
    while (run < end && effort > 0) {
        unsigned shard = load_acquire(&run->slab->shard); /* order pair: shard */
        struct slab_set *set = &load_acquire(&slab_shards[shard])->sets[object_class];
        uint32_t taken = 0;
        lock_acquire(&set->lock, LOCK_CLASS);
        for (; run < end && effort > 0 && load_relaxed(&run->slab->shard) == shard; run++) {
            effort--;
            if (PRIM_LIKELY(is_owed(run, trusted_class))) {
                take_run(run);
                taken += run->count;
            } else {
                giving->blocks += run->count;
                if (!take_with_care(set, run, object_class, &freed_twice)) {
                    continue;
                }
            }
            struct span *slab = run->slab;
            if (slab_set_retire(set, slab)) {
                runs[emptied_count++].slab = slab;
                effort -= RUNS_OF_A_SLAB;
            } else if (slab->bucket != BUCKET_QUARTER) { /* it would stay there */
                slab_set_update(set, slab);
            }
        }
        set->used_count -= taken;
        slab_set_count_free(set, (int32_t)taken);
        lock_release(&set->lock, LOCK_CLASS);
        giving->blocks += taken;
        effort -= (int)(taken / BLOCKS_OF_A_RUN);
    }
    giving->effort = effort;
    for (unsigned i = 0; i < emptied_count; i++) {
        purge_free(runs[i].slab, SPAN_DIRTY);
    }
    if (PRIM_UNLIKELY(freed_twice != NULL)) {
        double_free_note(freed_twice);
    }
    return (unsigned)(run - runs);
}

/* Gives back what the list begins with, in runs and freed slabs that take so long; returns how many
 * blocks, and leaves the rest in *list. A list that is not known to end is walked first, and turned
 * round, as its last blocks are warm then. */
static unsigned release(unsigned object_class, void **list, int effort, bool is_known) {
    struct run runs[RUN_MAX];
    struct giving giving = {effort, 0};
    bool is_careful = double_free_is_likely();
    while (*list && giving.effort > 0) {
        void *rest = *list;
        unsigned count = gather_runs(&rest, runs, RUN_MAX);
        if (PRIM_UNLIKELY(rest && !is_known)) { /* a long list, or a circle */
            is_known = true;
            is_careful |= double_free_turn(list);
            continue;
        }
        unsigned returned = return_runs(object_class, runs, count, is_careful, &giving);
        *list = returned < count ? runs[returned].first : rest;
    }
    return giving.blocks;
}

void slab_release(unsigned object_class, void *list) {
    slab_release_some(object_class, &list, UINT_MAX, INT_MAX, false);
}

bool slab_release_single(unsigned object_class, void *block) {
    bool is_single = slab_set_is_single(object_class);
    if (is_single) {
        release_single(object_class, block);
    }
    return is_single;
}

unsigned slab_release_some(unsigned object_class, void **list, unsigned count, int effort,
                           bool is_rest) {
    if (slab_set_is_single(object_class)) {
        release_singles(object_class, *list);
        *list = NULL;
        return 0;
    }
    unsigned given = release(object_class, list, effort, is_rest);
    return *list && given < count ? count - given : 0;
}

static void trim_set(struct shard *shard, unsigned object_class, void *context) {
    (void)context;
    struct slab_set *set = &shard->sets[object_class];
    lock_acquire(&set->lock, LOCK_CLASS);
    struct span *slab = set->carving;
    bool is_empty = slab && slab->used_count == 0;
    if (is_empty) {
        set->carving = NULL; /* or it would stay */
        slab_set_retire(set, slab);
    }
    lock_release(&set->lock, LOCK_CLASS);
    if (is_empty) {
        purge_free(slab, SPAN_DIRTY);
    }
}

void slab_trim(void) {
    slab_transfer_end();
    slab_set_for_each(trim_set, NULL);
}
