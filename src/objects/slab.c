/* slab.c - see slab.h. */
#include "objects/slab.h"

#include "base/assert.h"
#include "objects/size_class.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/metadata.h"
#include "pages/page_heap.h"
#include "pages/purge.h"

/* Slabs with free blocks are kept by how much of them is free. Refilling from the fullest ones
 * lets the emptiest drain; slabs nearly full give too few blocks to be worth the visit and rest
 * until nothing else is left. */
enum slab_bucket { BUCKET_HALF, BUCKET_QUARTER, BUCKET_EIGHTH, BUCKET_RESTING, BUCKET_COUNT };

static const uint8_t refill_order[BUCKET_COUNT] = {BUCKET_EIGHTH, BUCKET_QUARTER, BUCKET_HALF,
                                                   BUCKET_RESTING};

enum {
    BUCKET_NONE = BUCKET_COUNT, /* a slab in no list: full, or being carved */
    WHOLE_LIST_SIZE = 2048,     /* slabs of blocks up to this size give their list uncut */
    CARVE_SIZE_MAX = 16 * 1024, /* bytes of fresh blocks taken at once beyond the page */
    RUN_MAX = 32,               /* runs of blocks returned under one lock */
};

/* The slabs of one class in one shard: one cache line. */
struct slab_set {
    _Alignas(PRIM_CACHE_LINE) struct lock lock;
    uint32_t slab_count;                /* (lock: CLASS) all slabs, full ones too */
    struct span *carving;               /* (lock: CLASS) the slab that fresh blocks come from */
    struct span *buckets[BUCKET_COUNT]; /* (lock: CLASS) slabs with free blocks */
    uint32_t used_count;                /* (lock: CLASS) blocks handed out */
    _Atomic uint32_t free_count;        /* (atomic: hint) free blocks; written under the lock */
};

struct shard {
    struct slab_set sets[CLASS_COUNT + 1];
};

/* The first shard is always there, so that allocation goes on when memory for others is out. */
static struct shard first_shard;
static _Atomic(struct shard *) shards[SHARD_MAX] = {&first_shard}; /* (atomic: shard table) */
static struct lock shards_lock;
static _Atomic unsigned shard_count = 1; /* (atomic: hint) any value up to SHARD_MAX will do */

void slab_initialise(unsigned wanted) {
    unsigned count = wanted ? wanted : machine_processor_count();
    store_relaxed(&shard_count, count < SHARD_MAX ? count : SHARD_MAX);
}

unsigned slab_current_shard(void) {
    unsigned count = load_relaxed(&shard_count);
    return count == 1 ? 0 : machine_processor() % count;
}

static struct shard *make_shard(unsigned index) {
    lock_acquire(&shards_lock, LOCK_SHARDS);
    struct shard *shard = load_relaxed(&shards[index]);
    if (!shard) {
        shard = metadata_allocate(sizeof *shard, PRIM_CACHE_LINE);
        store_release(&shards[index], shard); /* order pair: shard table */
    }
    lock_release(&shards_lock, LOCK_SHARDS);
    return shard ? shard : &first_shard;
}

PRIM_INLINE struct shard *shard_get(unsigned index) {
    struct shard *shard = load_acquire(&shards[index]); /* order pair: shard table */
    return PRIM_LIKELY(shard != NULL) ? shard : make_shard(index);
}

static unsigned bucket_for(const struct span *slab) {
    if (slab->free_count == 0) {
        return BUCKET_NONE;
    }
    uint32_t eighths = slab->free_count * 8 / size_classes[slab->object_class].capacity;
    if (eighths >= 2) {
        return eighths >= 4 ? BUCKET_HALF : BUCKET_QUARTER;
    }
    return eighths ? BUCKET_EIGHTH : BUCKET_RESTING;
}

static void list_remove(struct slab_set *set, struct span *slab) {
    if (slab->bucket == BUCKET_NONE) {
        return;
    }
    if (slab->previous) {
        slab->previous->next = slab->next;
    } else {
        set->buckets[slab->bucket] = slab->next;
    }
    if (slab->next) {
        slab->next->previous = slab->previous;
    }
    slab->bucket = BUCKET_NONE;
}

static void list_insert(struct slab_set *set, struct span *slab, unsigned bucket) {
    slab->bucket = (uint8_t)bucket;
    if (bucket == BUCKET_NONE) {
        return;
    }
    slab->previous = NULL;
    slab->next = set->buckets[bucket];
    if (slab->next) {
        slab->next->previous = slab;
    }
    set->buckets[bucket] = slab;
}

/* Keeps the slab in the list that its free_count asks for. */
static void list_update(struct slab_set *set, struct span *slab) {
    unsigned bucket = bucket_for(slab);
    if (bucket != slab->bucket) {
        list_remove(set, slab);
        list_insert(set, slab, bucket);
    }
}

static void count_free(struct slab_set *set, int32_t change) {
    store_relaxed(&set->free_count, load_relaxed(&set->free_count) + (uint32_t)change);
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
    slab->free_count -= count;
    slab->used_count += count;
    set->used_count += count;
    count_free(set, -(int32_t)count);
    list_update(set, slab);
}

static unsigned take_partial(struct slab_set *set, unsigned object_class, unsigned wanted,
                             void **list) {
    for (unsigned i = 0; i < BUCKET_COUNT; i++) {
        struct span *slab = set->buckets[refill_order[i]];
        if (slab) {
            bool whole = size_classes[object_class].size <= WHOLE_LIST_SIZE;
            uint32_t count =
                whole ? slab->free_count : (uint32_t)bits_min(wanted, slab->free_count);
            take_blocks(set, slab, count, list);
            return count;
        }
    }
    return 0;
}

/* Takes fresh blocks from the slab being carved, up to the end of the system's page: the next
 * page stays untouched until it is needed. The caller links them, outside the lock. */
static unsigned carve(struct slab_set *set, unsigned object_class, unsigned wanted, char **first) {
    struct span *slab = set->carving;
    if (!slab) {
        return 0;
    }
    size_t size = size_classes[object_class].size;
    uint32_t room = size_classes[object_class].capacity - slab->carved_count;
    uintptr_t start = slab->address + slab->carved_count * size;
    uintptr_t page_end = bits_round_up(start + size, memory_page_size());
    size_t bytes = bits_max(page_end - start, bits_min(wanted * size, CARVE_SIZE_MAX));
    uint32_t count = (uint32_t)bits_min(room, bytes / size);
    *first = (char *)start;
    slab->carved_count += count;
    slab->used_count += count;
    set->used_count += count;
    if (count == room) {
        set->carving = NULL;
    }
    return count;
}

static void link_blocks(char *first, unsigned count, size_t size, void **list) {
    char *block = first;
    for (unsigned i = 1; i < count; i++, block += size) {
        *(void **)block = block + size;
    }
    *(void **)block = NULL;
    *list = first;
}

static void free_slab(struct span *slab) {
    span_withdraw(slab);
    purge_free(slab, SPAN_DIRTY);
}

/* Slabs of one block need no lists, no counts and no lock: they come from the page heap and go
 * back to it with their block. */
static bool is_single(unsigned object_class) {
    return size_classes[object_class].capacity == 1;
}

static unsigned acquire_single(unsigned object_class, void **list) {
    struct span *slab = page_heap_allocate(size_classes[object_class].slices, 0);
    if (!slab) {
        return 0;
    }
    span_publish(slab, SPAN_LARGE, object_class);
    *list = (void *)slab->address;
    *(void **)*list = NULL;
    return 1;
}

static void release_singles(void *list) {
    while (list) {
        void *next = *(void **)list;
        free_slab(span_of_block(list));
        list = next;
    }
}

/* Gets a new slab for the set; false when there is no memory. */
static bool add_slab(struct slab_set *set, unsigned shard, unsigned object_class) {
    struct span *slab = page_heap_allocate(size_classes[object_class].slices, 0);
    if (!slab) {
        return false;
    }
    slab->free_blocks = NULL;
    slab->used_count = 0;
    slab->free_count = 0;
    slab->carved_count = 0;
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
        free_slab(slab);
    }
    return true;
}

/* Moves a slab between sets whose locks are both held. */
static void move_slab(struct slab_set *from, struct slab_set *to, unsigned to_shard,
                      struct span *slab) {
    list_remove(from, slab);
    from->slab_count--;
    from->used_count -= slab->used_count;
    count_free(from, -(int32_t)slab->free_count);
    store_release(&slab->shard, (uint8_t)to_shard); /* order pair: shard */
    to->slab_count++;
    to->used_count += slab->used_count;
    count_free(to, (int32_t)slab->free_count);
    list_insert(to, slab, bucket_for(slab));
}

/* Takes a slab that is at least half free from another shard that has many free blocks. */
static bool steal_slab(struct slab_set *set, unsigned shard, unsigned object_class) {
    uint32_t plenty = size_classes[object_class].capacity;
    bool found = false;
    for (unsigned i = 1, all = load_relaxed(&shard_count); i < all && !found; i++) {
        struct shard *from = load_acquire(&shards[(shard + i) % all]); /* order pair: shard table */
        struct slab_set *victim = from ? &from->sets[object_class] : NULL;
        if (!victim || victim == set || load_relaxed(&victim->free_count) < plenty) {
            continue;
        }
        /* Two locks of one rank: the second is only tried, so nobody waits in a circle. */
        lock_acquire(&set->lock, LOCK_CLASS);
        if (lock_try_acquire_unranked(&victim->lock)) {
            struct span *slab = victim->buckets[BUCKET_HALF];
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

unsigned slab_acquire(unsigned shard, unsigned object_class, unsigned wanted, void **list) {
    if (is_single(object_class)) {
        return acquire_single(object_class, list);
    }
    struct shard *home = shard_get(shard);
    struct slab_set *set = &home->sets[object_class];
    shard = home == &first_shard ? 0 : shard;
    do {
        char *fresh = NULL;
        lock_acquire(&set->lock, LOCK_CLASS);
        unsigned count = take_partial(set, object_class, wanted, list);
        unsigned carved = count ? 0 : carve(set, object_class, wanted, &fresh);
        lock_release(&set->lock, LOCK_CLASS);
        if (carved) {
            link_blocks(fresh, carved, size_classes[object_class].size, list);
        }
        if (count + carved) {
            return count + carved;
        }
    } while (steal_slab(set, shard, object_class) || add_slab(set, shard, object_class));
    return 0;
}

/* A run: consecutive blocks of a list that lie in one slab. */
struct run {
    void *first;
    void *last;
    struct span *slab;
    uint32_t count;
};

/* Cuts up to RUN_MAX runs off a list; returns how many. Blocks of different slices of one slab
 * make different runs, which costs a little and is never wrong. */
static unsigned gather_runs(void **list, struct run *runs) {
    unsigned count = 0;
    void *block = *list;
    while (block && count < RUN_MAX) {
        uintptr_t slice = (uintptr_t)block >> SLICE_SHIFT;
        struct run *run = &runs[count++];
        run->first = block;
        run->slab = span_of_block(block);
        run->count = 0;
        do {
            run->last = block;
            run->count++;
            block = *(void **)block;
        } while (block && (uintptr_t)block >> SLICE_SHIFT == slice);
    }
    *list = block;
    return count;
}

/* With the slab's lock held: takes a run back. Returns the slab if that emptied it. */
static struct span *take_run(struct slab_set *set, const struct run *run) {
    struct span *slab = run->slab;
    PRIM_ASSERT(span_state(slab) == SPAN_SLAB && slab->used_count >= run->count);
    *(void **)run->last = slab->free_blocks;
    slab->free_blocks = run->first;
    slab->free_count += run->count;
    slab->used_count -= run->count;
    set->used_count -= run->count;
    count_free(set, (int32_t)run->count);
    if (slab->used_count == 0 && (slab != set->carving || slab->slice_count > 1)) {
        list_remove(set, slab);
        count_free(set, -(int32_t)slab->free_count);
        set->slab_count--;
        if (slab == set->carving) {
            set->carving = NULL;
        }
        return slab;
    }
    list_update(set, slab);
    return NULL;
}

/* Returns runs to their slabs. A slab with a run still to come cannot be emptied, so it cannot be
 * reused under us; a slab whose last run is in may be, so it is not looked at again. */
static void return_runs(unsigned object_class, struct run *runs, unsigned count) {
    struct span *emptied[RUN_MAX];
    unsigned emptied_count = 0;
    while (count) {
        unsigned shard = load_acquire(&runs[0].slab->shard); /* order pair: shard */
        struct slab_set *set = &load_acquire(&shards[shard])->sets[object_class];
        unsigned kept = 0;
        lock_acquire(&set->lock, LOCK_CLASS);
        for (unsigned i = 0; i < count; i++) {
            if (load_relaxed(&runs[i].slab->shard) != shard) {
                runs[kept++] = runs[i];
                continue;
            }
            struct span *slab = take_run(set, &runs[i]);
            if (slab) {
                emptied[emptied_count++] = slab;
            }
        }
        lock_release(&set->lock, LOCK_CLASS);
        count = kept;
    }
    for (unsigned i = 0; i < emptied_count; i++) {
        free_slab(emptied[i]);
    }
}

void slab_release(unsigned object_class, void *list) {
    struct run runs[RUN_MAX];
    if (is_single(object_class)) {
        release_singles(list);
        return;
    }
    while (list) {
        unsigned count = gather_runs(&list, runs);
        return_runs(object_class, runs, count);
    }
}

/* Calls visit for every set that exists, in a fixed order. */
static void for_each_set(void (*visit)(struct slab_set *set, unsigned object_class, void *context),
                         void *context) {
    for (unsigned i = 0; i < SHARD_MAX; i++) {
        struct shard *shard = load_acquire(&shards[i]); /* order pair: shard table */
        for (unsigned object_class = 1; shard && object_class <= CLASS_COUNT; object_class++) {
            visit(&shard->sets[object_class], object_class, context);
        }
    }
}

static void trim_set(struct slab_set *set, unsigned object_class, void *context) {
    (void)object_class;
    (void)context;
    lock_acquire(&set->lock, LOCK_CLASS);
    struct span *slab = set->carving;
    bool is_empty = slab && slab->used_count == 0;
    if (is_empty) {
        list_remove(set, slab);
        count_free(set, -(int32_t)slab->free_count);
        set->slab_count--;
        set->carving = NULL;
    }
    lock_release(&set->lock, LOCK_CLASS);
    if (is_empty) {
        free_slab(slab);
    }
}

void slab_trim(void) {
    for_each_set(trim_set, NULL);
}

size_t slab_purge(bool all) {
    (void)all; /* no page of a slab in use is given back as yet */
    return 0;
}

static void add_returnable(struct slab_set *set, unsigned object_class, void *context) {
    size_t *bytes = context;
    *bytes += (size_t)load_relaxed(&set->free_count) * size_classes[object_class].size;
}

size_t slab_returnable_bytes(void) {
    size_t bytes = 0;
    for_each_set(add_returnable, &bytes);
    return bytes;
}

static void add_totals(struct slab_set *set, unsigned object_class, void *context) {
    struct slab_totals *totals = context;
    const struct size_class *class = &size_classes[object_class];
    lock_acquire(&set->lock, LOCK_CLASS);
    size_t slab_bytes = (size_t)set->slab_count * class->slices * SLICE_SIZE;
    totals->slab_bytes += slab_bytes;
    totals->free_bytes += slab_bytes - (size_t)set->used_count * class->size;
    totals->free_blocks += load_relaxed(&set->free_count);
    lock_release(&set->lock, LOCK_CLASS);
}

void slab_totals_add(struct slab_totals *totals) {
    for_each_set(add_totals, totals);
}

static void lock_set(struct slab_set *set, unsigned object_class, void *context) {
    (void)object_class;
    (void)context;
    lock_acquire_unranked(&set->lock);
}

static void unlock_set(struct slab_set *set, unsigned object_class, void *context) {
    (void)object_class;
    (void)context;
    lock_release_unranked(&set->lock);
}

static void reset_set(struct slab_set *set, unsigned object_class, void *context) {
    (void)object_class;
    (void)context;
    lock_reset(&set->lock);
}

void slab_fork_prepare(void) {
    lock_acquire_unranked(&shards_lock); /* no shard appears while the sets are held */
    for_each_set(lock_set, NULL);
}

void slab_fork_parent(void) {
    for_each_set(unlock_set, NULL);
    lock_release_unranked(&shards_lock);
}

void slab_fork_child(void) {
    for_each_set(reset_set, NULL);
    lock_reset(&shards_lock);
}
