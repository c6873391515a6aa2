/* thread_cache.c - see thread_cache.h. */
#include "objects/thread_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/assert.h"
#include "objects/maintenance.h"
#include "objects/slab.h"
#include "objects/threshold.h"
#include "os/lock.h"
#include "pages/limits.h"
#include "pages/metadata.h"
#include "pages/purge.h"
#include "settings/options.h"

enum {
    CAPACITY_START_SIZE = 1024,        /* bytes a bin may hold at first */
    CAPACITY_START_MAX = 16,           /* blocks */
    CAPACITY_SMALL_SIZE = 16 * 1024,   /* bytes a bin of blocks up to 4 KiB may grow to */
    CAPACITY_FEW_SIZE = 64 * 1024,     /* the same while all bins together hold no more than ... */
    FEW_BINS_SIZE = 128 * 1024,        /* ... this: a program of few sizes */
    CAPACITY_MEDIUM_SIZE = 256 * 1024, /* bytes a bin of greater blocks may grow to */
    CAPACITY_MAX = 1024,               /* blocks a bin may grow to */
    CAPACITY_IDLE_SIZE = 16 * 1024,    /* bytes a bin of greater blocks keeps if only freed to */
    ONLY_FREED_SIZE = 512 * 1024,      /* bytes of a class freed in a row that make us think so */
    REFILL_GROWTH_SIZE = 4096,         /* bins of greater blocks grow when they run over only */
    COLLECT_INTERVAL = 64,             /* slow events between collections; a power of two */
    COLLECT_CLASSES = 8,               /* bins visited by one collection */
    PRESSED_DIVISOR = 8,               /* of its budget remains above the soft limit */
    PRESSED_INTERVAL = 4096,           /* slow events between purges of slabs above it */
    PURGE_INTERVAL = 256,              /* slow events between looks at the clock; a power of two */
};

static struct thread_cache empty_cache; /* (const) all zero */

PRIM_THREAD_LOCAL struct thread_cache *thread_cache_visible = &empty_cache;

/* NULL: none yet; EXITED: the thread's destructors have run. The other word of static TLS. */
static PRIM_THREAD_LOCAL struct thread_cache *own_cache;
#define EXITED ((struct thread_cache *)1)

static struct {
    struct lock lock;
    struct thread_cache *active; /* (lock: CACHES) caches of living threads */
    struct thread_cache *unused; /* (lock: CACHES) caches of exited threads, empty */
    _Atomic unsigned count;      /* (atomic: hint) of active caches */
    pthread_key_t key;           /* (const after initialisation) its destructor ends us */
    bool has_key;                /* (const after initialisation) */
} caches;

static unsigned capacity_limit(const struct thread_cache *cache, unsigned object_class) {
    size_t size = size_classes[object_class].size;
    size_t small_bytes =
        cache->capacity_bytes < FEW_BINS_SIZE ? CAPACITY_FEW_SIZE : CAPACITY_SMALL_SIZE;
    size_t bytes = size <= 4096 ? small_bytes : CAPACITY_MEDIUM_SIZE;
    size_t most = size <= options.cache_max ? options.cache_count / 2 : 0; /* head and spare */
    return (unsigned)bits_min(bits_max(bytes / size, 1), bits_min(most, CAPACITY_MAX));
}

static unsigned capacity_start(const struct thread_cache *cache, unsigned object_class) {
    size_t count = CAPACITY_START_SIZE / size_classes[object_class].size;
    return (unsigned)bits_min(bits_clamp(count, 1, CAPACITY_START_MAX),
                              capacity_limit(cache, object_class));
}

/* Bytes that the capacities of one thread may add up to: half of what it may hold, because a bin
 * holds its capacity twice, in head and spare. */
static size_t thread_budget(void) {
    unsigned count = load_relaxed(&caches.count);
    size_t part = bits_min(options.cache_thread, options.cache_total / (count ? count : 1)) / 2;
    return limits_are_pressed() ? part / PRESSED_DIVISOR : part;
}

PRIM_INLINE void bit_set(uint64_t *bits, unsigned index) {
    bits[index / 64] |= (uint64_t)1 << (index % 64);
}

PRIM_INLINE void bit_clear(uint64_t *bits, unsigned index) {
    bits[index / 64] &= ~((uint64_t)1 << (index % 64));
}

PRIM_INLINE bool bit_test(const uint64_t *bits, unsigned index) {
    return bits[index / 64] >> (index % 64) & 1;
}

static unsigned head_length(const struct thread_cache *cache, unsigned object_class) {
    return (unsigned)(cache->capacity[object_class] - cache->room[object_class]);
}

static void set_capacity(struct thread_cache *cache, unsigned object_class, unsigned capacity) {
    int change = (int)capacity - cache->capacity[object_class];
    cache->capacity[object_class] = (uint16_t)capacity;
    cache->room[object_class] += change;
    cache->capacity_bytes +=
        (size_t)((ptrdiff_t)change * (ptrdiff_t)size_classes[object_class].size);
}

/* Gives a bin its first capacity, or twice what it has, as far as limit and budget allow. */
static void grow_capacity(struct thread_cache *cache, unsigned object_class) {
    unsigned capacity = cache->capacity[object_class];
    unsigned wanted = capacity ? capacity * 2 : capacity_start(cache, object_class);
    unsigned allowed = (unsigned)bits_min(wanted, capacity_limit(cache, object_class));
    size_t growth = (size_t)(allowed - capacity) * size_classes[object_class].size;
    if (allowed > capacity && cache->capacity_bytes + growth <= thread_budget()) {
        set_capacity(cache, object_class, allowed);
    }
}

static void begin_use(struct thread_cache *cache, unsigned object_class) {
    if (!bit_test(cache->in_use, object_class)) {
        bit_set(cache->in_use, object_class);
        grow_capacity(cache, object_class);
    }
}

static void *take_spare(struct thread_cache *cache, unsigned object_class) {
    void *list = cache->spare[object_class];
    cache->spare[object_class] = NULL;
    cache->spare_count[object_class] = 0;
    bit_set(cache->was_moved, object_class);
    return list;
}

static void head_to_spare(struct thread_cache *cache, unsigned object_class) {
    cache->spare[object_class] = cache->head[object_class];
    cache->spare_count[object_class] = (uint16_t)head_length(cache, object_class);
    cache->head[object_class] = NULL;
    cache->room[object_class] = cache->capacity[object_class];
}

static void flush_bin(struct thread_cache *cache, unsigned object_class) {
    if (cache->spare[object_class]) {
        slab_release(object_class, take_spare(cache, object_class));
    }
    if (cache->head[object_class]) {
        head_to_spare(cache, object_class);
        slab_release(object_class, take_spare(cache, object_class));
    }
    bit_clear(cache->was_moved, object_class);
}

/* The bin runs over, spare and all: it is too small. But where much was freed since one was taken
 * last, the program goes on freeing, and keeping greater blocks for it is in vain: their bin gets
 * smaller, down to nothing. */
static void adapt_to_overflow(struct thread_cache *cache, unsigned object_class) {
    size_t size = size_classes[object_class].size;
    uint32_t freed = (uint32_t)(cache->capacity[object_class] * size);
    if (size > REFILL_GROWTH_SIZE && cache->only_freed[object_class] > ONLY_FREED_SIZE) {
        head_to_spare(cache, object_class);
        slab_release(object_class, take_spare(cache, object_class));
        unsigned half = cache->capacity[object_class] / 2;
        set_capacity(cache, object_class, (unsigned)bits_max(half, CAPACITY_IDLE_SIZE / size));
    } else {
        cache->only_freed[object_class] += freed;
        grow_capacity(cache, object_class);
    }
}

/* Low water: a spare that nobody moved since the last visit goes back to its slabs, and the bin
 * gets smaller; else the head becomes the spare and waits for the next visit. A cache above its
 * budget, because more threads came, gives all of the bin back. */
static void collect_bin(struct thread_cache *cache, unsigned object_class) {
    unsigned half = cache->capacity[object_class] / 2;
    if (cache->capacity_bytes > thread_budget()) {
        flush_bin(cache, object_class);
        set_capacity(cache, object_class, half);
    } else if (cache->spare[object_class]) {
        if (!bit_test(cache->was_moved, object_class)) {
            slab_release(object_class, take_spare(cache, object_class));
            set_capacity(cache, object_class,
                         (unsigned)bits_max(half, capacity_start(cache, object_class)));
        }
    } else if (cache->head[object_class]) {
        head_to_spare(cache, object_class);
    }
    bit_clear(cache->was_moved, object_class);
}

static unsigned class_for_table(size_t size, bool is_young) {
    if (is_young && size > 16) {
        size = (size_t)1 << (bits_highest(size - 1) + 1);
    }
    unsigned object_class = size_class_of(size);
    return object_class == CLASS_OF_8 && (is_young || options.min_align > 8) ? CLASS_OF_16
                                                                             : object_class;
}

static void fill_class_table(struct thread_cache *cache) {
    for (size_t size = 0; size < SMALL_TABLE_SIZE; size++) {
        cache->class_of[size] = (uint8_t)class_for_table(size, cache->is_young);
    }
}

static void collect(struct thread_cache *cache) {
    if (PRIM_UNLIKELY(cache->is_young)) {
        cache->is_young = false;
        fill_class_table(cache);
    }
    unsigned visits = 0;
    for (unsigned step = 0; step < BIN_COUNT && visits < COLLECT_CLASSES; step++) {
        cache->visited_class = (cache->visited_class + 1) % BIN_COUNT;
        if (bit_test(cache->in_use, cache->visited_class)) {
            collect_bin(cache, cache->visited_class);
            visits++;
        }
    }
}

static void show(struct thread_cache *cache) {
    thread_cache_visible = options_see_every_call() ? &empty_cache : cache;
}

static void note_slow_event(struct thread_cache *cache) {
    uint32_t events = ++cache->slow_events;
    show(cache); /* mallopt may have asked in another thread for every call to be seen */
    if (PRIM_UNLIKELY(events % COLLECT_INTERVAL == 0)) {
        collect(cache);
        if (events % PURGE_INTERVAL == 0) {
            purge_tick();
            maintenance_look();
        }
        if (events % PRESSED_INTERVAL == 0 && limits_are_pressed()) {
            slab_purge(false);
        }
    }
}

bool thread_cache_has_ended(void) {
    return own_cache == EXITED;
}

void thread_cache_refuse(void) {
    own_cache = EXITED;
}

bool thread_cache_is_only(void) {
    return own_cache > EXITED && load_relaxed(&caches.count) == 1;
}

/* Only one thread allocates: then one shard keeps all slabs together. */
static unsigned current_shard(void) {
    return thread_cache_is_only() ? 0 : slab_current_shard();
}

void *thread_cache_refill(struct thread_cache *cache, unsigned object_class) {
    PRIM_ASSERT(cache->head[object_class] == NULL);
    begin_use(cache, object_class);
    note_slow_event(cache);
    void *list;
    unsigned count = cache->spare_count[object_class];
    if (count) {
        list = take_spare(cache, object_class);
    } else {
        unsigned wanted = (unsigned)bits_max(cache->capacity[object_class], 1);
        count = slab_acquire(current_shard(), object_class, wanted, &list);
        cache->only_freed[object_class] = 0;
        if (count == 0) {
            return NULL;
        }
        if (size_classes[object_class].size <= REFILL_GROWTH_SIZE ||
            cache->capacity[object_class] == 0) {
            grow_capacity(cache, object_class);
        }
    }
    cache->head[object_class] = *(void **)list;
    cache->room[object_class] = cache->capacity[object_class] - (int32_t)(count - 1);
    return list;
}

void thread_cache_overflow(struct thread_cache *cache, unsigned object_class, void *block) {
    begin_use(cache, object_class);
    note_slow_event(cache);
    if (cache->room[object_class] <= 0 && cache->head[object_class]) {
        if (cache->spare[object_class]) {
            slab_release(object_class, take_spare(cache, object_class));
            adapt_to_overflow(cache, object_class);
        }
        if (cache->head[object_class]) {
            head_to_spare(cache, object_class);
            bit_set(cache->was_moved, object_class);
        }
    }
    if (cache->capacity[object_class] == 0) { /* no budget for this class, or no use for it */
        *(void **)block = NULL;
        slab_release(object_class, block);
        return;
    }
    *(void **)block = cache->head[object_class];
    cache->head[object_class] = block;
    cache->room[object_class]--;
}

void thread_cache_flush(struct thread_cache *cache) {
    for (unsigned word = 0; word < 2; word++) {
        for (uint64_t bits = cache->in_use[word]; bits; bits &= bits - 1) {
            unsigned object_class = word * 64 + bits_lowest(bits);
            flush_bin(cache, object_class);
            set_capacity(cache, object_class, 0);
        }
        cache->in_use[word] = 0;
    }
}

static void list_insert(struct thread_cache **list, struct thread_cache *cache) {
    cache->previous = NULL;
    cache->next = *list;
    if (*list) {
        (*list)->previous = cache;
    }
    *list = cache;
}

static void list_remove(struct thread_cache **list, struct thread_cache *cache) {
    if (cache->previous) {
        cache->previous->next = cache->next;
    } else {
        *list = cache->next;
    }
    if (cache->next) {
        cache->next->previous = cache->previous;
    }
}

/* With the lock held. The first cache needs no memory from the system. */
static struct thread_cache *new_cache(void) {
    static struct thread_cache first;
    static bool first_is_taken; /* (lock: CACHES) */
    struct thread_cache *cache = &first;
    if (first_is_taken) {
        cache = metadata_allocate(sizeof *cache, PRIM_CACHE_LINE);
    }
    if (cache) {
        cache->is_young = !first_is_taken && !threshold_is_large(MEDIUM_SIZE_MAX);
        fill_class_table(cache);
    }
    first_is_taken = true;
    return cache;
}

static PRIM_NOINLINE struct thread_cache *make_cache(void) {
    lock_acquire(&caches.lock, LOCK_CACHES);
    struct thread_cache *cache = caches.unused;
    unsigned others = 0;
    if (cache) {
        list_remove(&caches.unused, cache);
    } else {
        cache = new_cache();
    }
    if (cache) {
        list_insert(&caches.active, cache);
        others = add_relaxed(&caches.count, 1);
    }
    lock_release(&caches.lock, LOCK_CACHES);
    if (others == 1) { /* until now one thread was alone, and its shard enough */
        slab_initialise((unsigned)option_now(shards));
    }
    if (cache) {
        own_cache = cache;
        show(cache);
        if (caches.has_key) {
            pthread_setspecific(caches.key, cache); /* may allocate: we are ready for it */
        }
    }
    return cache;
}

struct thread_cache *thread_cache_own(void) {
    struct thread_cache *cache = own_cache;
    if (PRIM_LIKELY(cache > EXITED)) {
        return cache;
    }
    return cache == EXITED ? NULL : make_cache();
}

/* The thread exits. Destructors of other keys may still allocate and free: they find no cache
 * and work with the slabs directly, so nothing is left behind whatever the order. */
static void end_thread(void *value) {
    struct thread_cache *cache = value;
    own_cache = EXITED;
    thread_cache_visible = &empty_cache;
    thread_cache_flush(cache);
    lock_acquire(&caches.lock, LOCK_CACHES);
    list_remove(&caches.active, cache);
    subtract_relaxed(&caches.count, 1);
    list_insert(&caches.unused, cache);
    lock_release(&caches.lock, LOCK_CACHES);
    if (load_relaxed(&caches.count) == 0) {
        maintenance_leave();
    }
}

void thread_cache_initialise(void) {
    caches.has_key = pthread_key_create(&caches.key, end_thread) == 0;
}

void thread_cache_apply_options(void) {
    if (load_relaxed(&caches.count) > 1) {
        slab_initialise((unsigned)option_now(shards));
    }
    if (own_cache > EXITED) {
        if (threshold_is_large(MEDIUM_SIZE_MAX)) {
            own_cache->is_young = false; /* tells no small sizes apart, as the threshold does */
            thread_cache_flush(own_cache);
        }
        fill_class_table(own_cache);
        show(own_cache);
    }
}

/* The owner may be at work: each number is one that was true of late, and nothing relies on two of
 * them being of the same moment. */
static PRIM_UNWATCHED void add_cache(struct thread_cache_totals *totals,
                                     const volatile struct thread_cache *cache) {
    totals->slow_events += cache->slow_events;
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        int32_t capacity = cache->capacity[object_class];
        int32_t count = capacity ? capacity - cache->room[object_class] : 0;
        totals->blocks[object_class] +=
            (uint32_t)(count > 0 ? count : 0) + cache->spare_count[object_class];
    }
}

void thread_cache_totals_add(struct thread_cache_totals *totals) {
    lock_acquire(&caches.lock, LOCK_CACHES);
    for (struct thread_cache *cache = caches.active; cache; cache = cache->next) {
        totals->cache_count++;
        add_cache(totals, cache);
    }
    for (struct thread_cache *cache = caches.unused; cache; cache = cache->next) {
        add_cache(totals, cache);
    }
    lock_release(&caches.lock, LOCK_CACHES);
}

void thread_cache_fork_prepare(void) {
    lock_acquire_unranked(&caches.lock);
}

void thread_cache_fork_parent(void) {
    lock_release_unranked(&caches.lock);
}

/* The other threads are gone, perhaps in the middle of a push: what their caches held cannot be
 * trusted and is given up, at most options.cache_thread for each. */
void thread_cache_fork_child(void) {
    lock_reset(&caches.lock);
    caches.active = NULL;
    store_relaxed(&caches.count, 0);
    if (own_cache > EXITED) {
        list_insert(&caches.active, own_cache);
        store_relaxed(&caches.count, 1);
    }
}
