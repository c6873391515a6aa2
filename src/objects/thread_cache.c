/* thread_cache.c - see thread_cache.h. */
#include "objects/thread_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/assert.h"
#include "objects/bin.h"
#include "objects/hardened.h"
#include "objects/heap.h"
#include "objects/maintenance.h"
#include "objects/reserve.h"
#include "objects/size_table.h"
#include "objects/slab.h"
#include "objects/thread_sampler.h"
#include "objects/threshold.h"
#include "objects/watcher.h"
#include "os/lock.h"
#include "pages/huge.h"
#include "pages/limits.h"
#include "pages/metadata.h"
#include "pages/purge.h"
#include "pages/sparse.h"
#include "settings/options.h"

enum {
    COLLECT_INTERVAL = 32,   /* slow events between collections; a power of two */
    TICK_INTERVAL = 64,      /* ... and between visits of idle lists; a power of two */
    COLLECT_CLASSES = 6,     /* bins visited by one collection */
    BUDGET_START = 8 << 10,  /* bytes that a new thread's bins may hold ... */
    EVENTS_DIVISOR = 4,      /* ... and by how much they may hold more: its slow events squared */
    EVENTS_MANY = 1024,      /* of earlier threads: the next may hold 256 KiB from the beginning */
    PRESSED_DIVISOR = 8,     /* of its budget remains above the soft limit */
    PRESSED_INTERVAL = 4096, /* slow events between purges of slabs above it */
    RESTS_TOGETHER = 24,     /* so that most of their pages hold nothing else */
    LOOK_INTERVAL = 32,      /* slow events between looks at some of the slabs ... */
    PURGE_INTERVAL = 256,    /* ... and at the clock; powers of two */
};

PRIM_FAR struct thread_cache_none thread_cache_none; /* its pages are read only: none is resident */

PRIM_THREAD_LOCAL struct thread_cache *thread_cache_visible = &thread_cache_none.cache;

/* NULL: none yet; EXITED: the thread's destructors have run. A thread without a cache has its marks
 * in the bits above that one. The other word of static TLS. */
static PRIM_THREAD_LOCAL struct thread_cache *own_cache;
#define EXITED ((struct thread_cache *)1)
#define MARK_BITS 5
#define NO_CACHE_LAST ((struct thread_cache *)((2u << MARK_BITS) - 1))
_Static_assert(THREAD_MARK_COUNT <= MARK_BITS, "a cache has as many, and more");

PRIM_INLINE bool has_cache(void) {
    return own_cache > NO_CACHE_LAST;
}

struct thread_cache *thread_cache_active;

static struct {
    struct lock lock;
    struct thread_cache *unused; /* (lock: CACHES) caches of exited threads, empty */
    _Atomic unsigned count;      /* (atomic: hint) of active caches */
    unsigned peak;               /* (lock: CACHES) most of them at a time */
    unsigned total;              /* (lock: CACHES) threads that ever had one */
    _Atomic bool is_inherited;   /* (atomic: hint) one was an ended thread's before */
    pthread_key_t key;           /* (const after initialisation) its destructor ends us */
    bool has_key;                /* (const after initialisation) */
} caches;

/* Bytes that the capacities of one thread may add up to: half of what it may hold, as a bin holds
 * its capacity twice, in head and spare. One of many has to earn it: most sleep, and keep it. */
size_t thread_cache_budget(const struct thread_cache *cache) {
    unsigned count = load_relaxed(&caches.count);
    size_t part = bits_min(options.cache_thread, options.cache_total / (count ? count : 1)) / 2;
    uint64_t events = bits_min(cache->slow_events, UINT32_MAX);
    uint64_t earned = events * events / EVENTS_DIVISOR;
    part = count > 1 ? bits_min(part, BUDGET_START + earned) : part;
    part *= load_relaxed(&sparse_is_on) ? SPARSE_KEPT : 1;
    return limits_are_pressed() ? part / PRESSED_DIVISOR : part;
}

/* Low water: a spare that nobody moved since the last visit goes back to its slabs, and the bin
 * gets smaller; else the head becomes the spare and waits for the next visit. In a cache above its
 * budget, because more threads came, that goes for bins in use as well. False if it took long. */
static bool collect_bin(struct thread_cache *cache, unsigned object_class) {
    const struct bin *bin = bin_of(cache, object_class);
    unsigned half = bin->capacity / 2;
    bool is_quick = true;
    if (cache->capacity_bytes > thread_cache_budget(cache)) {
        is_quick = !bin->spare || bin_give_spare(cache, object_class) == SLAB_KEPT;
        if (!bin->spare) {
            bin_head_to_spare(cache, object_class);
        }
        bin_set_capacity(cache, object_class, half);
    } else if (bin->spare) {
        if (!bin_is_marked(cache->was_moved, object_class)) {
            is_quick = bin_give_spare(cache, object_class) == SLAB_KEPT;
            bin_set_capacity(cache, object_class,
                             (unsigned)bits_max(half, bin_capacity_start(cache, object_class)));
        }
    } else {
        bin_set_aside(cache, object_class);
    }
    if (PRIM_UNLIKELY(cache->is_sampling)) {
        thread_sampler_collect(cache, object_class);
    }
    bin_unmark(cache->was_moved, object_class);
    return is_quick;
}

PRIM_COLD void thread_cache_set_medium(struct thread_cache *cache) {
    cache->medium_size_max = cache->is_sampling ? SMALL_SIZE_MAX : MEDIUM_SIZE_MAX;
    cache->counted_size_max = cache->is_sampling ? MEDIUM_SIZE_MAX : 0;
}

static PRIM_COLD void collect(struct thread_cache *cache) {
    if (PRIM_UNLIKELY(load_relaxed(&size_table_is_young))) {
        lock_acquire(&caches.lock, LOCK_CACHES);
        size_table_age();
        lock_release(&caches.lock, LOCK_CACHES);
    }
    if (cache->has_borrowed) {
        memset(cache->rest->borrowed, 0, sizeof cache->rest->borrowed);
        cache->has_borrowed = false;
    }
    unsigned visits = 0;
    for (unsigned step = 0; step < BIN_COUNT && visits < COLLECT_CLASSES; step++) {
        cache->visited_class = (cache->visited_class + 1) % BIN_COUNT;
        if (bin_is_marked(cache->in_use, cache->visited_class)) {
            visits += collect_bin(cache, cache->visited_class) ? 1 : COLLECT_CLASSES;
        }
    }
}

PRIM_INLINE void show(struct thread_cache *cache) {
    bool is_hidden = options_see_every_call() || watcher_is_any() || cache->tag;
    thread_cache_visible = PRIM_UNLIKELY(is_hidden) ? &thread_cache_none.cache : cache;
}

void thread_cache_show(void) {
    if (has_cache() && !thread_cache_is_inside()) {
        show(own_cache);
    }
}

PRIM_COLD void thread_cache_nest(void) {
    if (!thread_cache_enter()) {
        thread_cache_visible = (struct thread_cache *)((uint64_t *)thread_cache_visible + 1);
    }
}

void thread_cache_leave_to(struct thread_cache *cache) {
    order_for_handlers();
    show(cache); /* another thread, or the program's function, may have asked for something */
    if (PRIM_UNLIKELY(load_relaxed(&reserve_deferred) != NULL)) {
        reserve_drain();
    }
}

void thread_cache_leave(void) {
    PRIM_ASSERT(thread_cache_is_inside());
    struct thread_cache *outer = (struct thread_cache *)((uint64_t *)thread_cache_visible - 1);
    if (outer != &thread_cache_none.cache) {
        thread_cache_leave_shortly(outer);
    } else {
        thread_cache_leave_to(has_cache() ? own_cache : outer);
    }
}

bool thread_cache_note_event(struct thread_cache *cache) {
    uint32_t events = (uint32_t)++cache->slow_events;
    if (PRIM_UNLIKELY(events % COLLECT_INTERVAL == 0)) {
        collect(cache);
        if (events % TICK_INTERVAL == 0) {
            store_relaxed(&slab_tick_is_due, true);
        }
        if (events % PRESSED_INTERVAL == 0 && limits_are_pressed()) {
            slab_purge(false);
        }
    } else if (PRIM_UNLIKELY(events % LOOK_INTERVAL == LOOK_INTERVAL - 1)) {
        maintenance_look();
        if (events % PURGE_INTERVAL == PURGE_INTERVAL - 1) {
            store_relaxed(&purge_is_due, options.purge);
            maintenance_ask_again();
        }
    } else if (PRIM_UNLIKELY(load_relaxed(&limits.is_look_due))) {
        limits_look();
    } else if (PRIM_UNLIKELY(load_relaxed(&slab_tick_is_due))) {
        slab_tick();
    } else if (PRIM_UNLIKELY(load_relaxed(&purge_is_due))) {
        purge_tick();
    } else {
        return false;
    }
    return true;
}

bool thread_cache_has_ended(void) {
    return !has_cache() && (uintptr_t)own_cache & (uintptr_t)EXITED;
}

void thread_cache_refuse(void) {
    own_cache = EXITED;
}

bool thread_cache_is_only(void) {
    return has_cache() && load_relaxed(&caches.count) == 1;
}

/* Only one thread allocates: then one shard keeps all slabs together. */
unsigned thread_cache_shard(void) {
    return thread_cache_is_only() ? 0 : slab_current_shard();
}

bool thread_cache_may_wait(void) {
    return load_relaxed(&caches.count) > bits_max(slab_shard_count(), 1);
}

bool thread_cache_is_inherited(void) {
    return load_relaxed(&caches.is_inherited);
}

void *thread_cache_refill(struct thread_cache *cache, unsigned object_class, size_t alignment,
                          bool *is_zero) {
    PRIM_ASSERT(cache->head[object_class] == NULL);
    bin_begin_use(cache, object_class);
    thread_cache_note_event(cache);
    void *list = bin_borrow(cache, object_class, alignment);
    if (list) {
        return list;
    }
    unsigned count = bin_take_list(cache, object_class, &list, is_zero);
    if (count == 0) {
        return NULL;
    }
    cache->head[object_class] = count > 1 ? *(void **)list : NULL;
    cache->room[object_class] = bin_head_most(bin_of(cache, object_class)) - (int32_t)(count - 1);
    return list;
}

void thread_cache_overflow(struct thread_cache *cache, unsigned object_class, void *block) {
    const struct bin *bin = bin_of(cache, object_class);
    if (sampler_was_started()) {
        thread_sampler_adopt(cache);
    }
    bin_begin_use(cache, object_class);
    /* There is room where there is no address map, or somebody watches. In a full bin what is due
     * comes first: then the block goes in all the same, and the next call makes room. */
    int32_t room = cache->room[object_class];
    bool is_full = room < 0 || (room == 0 && !thread_cache_note_event(cache));
    if (is_full && cache->room[object_class] <= 0) {
        bin_make_room(cache, object_class, block);
    }
    if (bin->capacity == 0) { /* no budget for this class, or no use for it */
        bin_give_block(cache, object_class, block);
        return;
    }
    *(void **)block = cache->head[object_class];
    cache->head[object_class] = block;
    cache->room[object_class]--;
}

PRIM_COLD void thread_cache_flush(struct thread_cache *cache) {
    if (PRIM_UNLIKELY(cache->hardened != NULL)) {
        hardened_flush(cache);
    }
    for (unsigned word = 0; word < 2; word++) {
        for (uint64_t bits = cache->in_use[word]; bits; bits &= bits - 1) {
            unsigned object_class = word * 64 + bits_lowest(bits);
            thread_sampler_flush(cache, object_class);
            bin_flush(cache, object_class);
            bin_set_capacity(cache, object_class, 0);
        }
        cache->in_use[word] = 0;
    }
}

static PRIM_COLD void list_insert(struct thread_cache **list, struct thread_cache *cache) {
    cache->previous = NULL;
    cache->next = *list;
    if (*list) {
        (*list)->previous = cache;
    }
    *list = cache;
}

static PRIM_COLD void list_remove(struct thread_cache **list, struct thread_cache *cache) {
    if (cache->previous) {
        cache->previous->next = cache->next;
    } else {
        *list = cache->next;
    }
    if (cache->next) {
        cache->next->previous = cache->previous;
    }
}

/* With the lock held. */
static struct thread_cache_rest *new_rest(void) {
    static struct thread_cache_rest *next; /* (lock: CACHES) */
    static unsigned left;                  /* (lock: CACHES) of those that lie together */
    if (left == 0) {
        next = metadata_allocate(sizeof *next * RESTS_TOGETHER, PRIM_CACHE_LINE);
        left = next ? RESTS_TOGETHER : 0;
    }
    return left ? next + --left : NULL;
}

/* With the lock held. The first cache needs no memory from the system. */
static struct thread_cache *new_cache(void) {
    static struct thread_cache first;
    static struct thread_cache_rest first_rest;
    struct thread_cache *cache = first.rest ? NULL : &first;
    struct thread_cache_rest *rest = cache ? &first_rest : new_rest();
    if (rest && !cache) {
        cache = metadata_allocate(sizeof *cache, PRIM_CACHE_LINE);
        size_table_age();
        huge_note_thread();
    }
    if (cache) {
        cache->rest = rest;
        thread_cache_set_medium(cache);
    }
    return cache;
}

static PRIM_COLD struct thread_cache *make_cache(void) {
    heap_ensure(); /* a call that allocates nothing may be the process's first */
    thread_cache_nest();
    lock_acquire(&caches.lock, LOCK_CACHES);
    struct thread_cache *cache = caches.unused;
    unsigned others = 0;
    if (cache) {
        list_remove(&caches.unused, cache);
        cache->has_earned = cache->slow_events >= EVENTS_MANY;
        store_relaxed(&caches.is_inherited, true);
    } else {
        cache = new_cache();
    }
    if (cache) {
        list_insert(&thread_cache_active, cache);
        others = add_relaxed(&caches.count, 1);
        caches.peak = (unsigned)bits_max(caches.peak, others + 1);
        caches.total++;
    }
    lock_release(&caches.lock, LOCK_CACHES);
    if (others == 1) { /* until now one thread was alone, and its shard enough */
        slab_initialise((unsigned)option_now(shards));
        maintenance_note_threads();
    }
    if (cache) {
        hardened_take_over(cache);
        cache->marks = (uint8_t)((uintptr_t)own_cache >> 1);
        own_cache = cache;
        if (caches.has_key) { /* libc may allocate: we are ready for it */
            struct thread_cache *visible = thread_cache_visible;
            thread_cache_visible = &thread_cache_none.cache;
            pthread_setspecific(caches.key, cache);
            thread_cache_visible = visible;
        }
    }
    thread_cache_leave();
    return cache;
}

struct thread_cache *thread_cache_own(void) {
    return PRIM_LIKELY(has_cache()) ? own_cache : thread_cache_has_ended() ? NULL : make_cache();
}

PRIM_COLD bool thread_cache_exchange_mark(unsigned mark, bool value) {
    struct thread_cache *cache = thread_cache_own();
    PRIM_ASSERT(cache || mark < MARK_BITS);
    uintptr_t bits = cache ? cache->marks : (uintptr_t)own_cache >> 1;
    uintptr_t changed = (bits & ~((uintptr_t)1 << mark)) | (uintptr_t)value << mark;
    if (cache) {
        cache->marks = (uint8_t)changed;
    } else {
        own_cache = (struct thread_cache *)(changed << 1 | ((uintptr_t)own_cache & 1));
    }
    return bits >> mark & 1;
}

/* The thread exits. Destructors of other keys may still allocate and free: they find no cache
 * and work with the slabs directly, so nothing is left behind whatever the order. The key's value
 * is not asked: a second libc, in its own namespace, has keys of the same numbers and places. */
static PRIM_COLD void end_thread(void *value) {
    struct thread_cache *cache = own_cache;
    (void)value;
    if (!has_cache()) {
        return;
    }
    thread_cache_nest();
    own_cache = EXITED;
    thread_cache_flush(cache);
    cache->tag = 0;
    cache->tag_depth = 0;
    cache->label = 0;
    store_relaxed(&cache->ignored_depth, 0);
    lock_acquire(&caches.lock, LOCK_CACHES);
    list_remove(&thread_cache_active, cache);
    subtract_relaxed(&caches.count, 1);
    list_insert(&caches.unused, cache);
    lock_release(&caches.lock, LOCK_CACHES);
    if (load_relaxed(&caches.count) == 0) {
        maintenance_leave();
    }
    thread_cache_leave();
}

PRIM_COLD void thread_cache_initialise(void) {
    caches.has_key = pthread_key_create(&caches.key, end_thread) == 0;
    size_table_fill();
}

PRIM_COLD void thread_cache_apply_options(void) {
    bool tells_sizes_apart = threshold_is_large(MEDIUM_SIZE_MAX) || hardened_is_on();
    thread_cache_nest();
    if (load_relaxed(&caches.count) > 1) {
        slab_initialise((unsigned)option_now(shards));
        maintenance_note_threads();
    }
    lock_acquire(&caches.lock, LOCK_CACHES);
    if (tells_sizes_apart) { /* a young process does not */
        store_relaxed(&size_table_is_young, false);
    }
    size_table_fill();
    lock_release(&caches.lock, LOCK_CACHES);
    if (has_cache() && tells_sizes_apart) {
        thread_cache_flush(own_cache);
    }
    thread_cache_leave();
}

/* The owner may be at work: each number was true of late, no two need be of the same moment. */
static PRIM_UNWATCHED void add_cache(struct thread_cache_totals *totals,
                                     struct thread_cache *cache) {
    totals->slow_events += cache->slow_events;
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        if (!bin_is_marked(cache->in_use, object_class)) { /* its page may be untouched */
            continue;
        }
        const volatile struct bin *bin = bin_of(cache, object_class);
        int32_t count = (int32_t)bin_head_length(cache, object_class);
        totals->blocks[object_class] += (uint32_t)(count > 0 ? count : 0) + bin->spare_count +
                                        thread_sampler_held(cache, object_class);
    }
}

PRIM_COLD void thread_cache_totals_add(struct thread_cache_totals *totals) {
    lock_acquire(&caches.lock, LOCK_CACHES);
    for (struct thread_cache *cache = thread_cache_active; cache; cache = cache->next) {
        totals->cache_count++;
        add_cache(totals, cache);
    }
    for (struct thread_cache *cache = caches.unused; cache; cache = cache->next) {
        add_cache(totals, cache);
    }
    totals->cache_peak = caches.peak;
    totals->cache_total = caches.total;
    lock_release(&caches.lock, LOCK_CACHES);
}

/* Two words of another thread's. */
static PRIM_UNWATCHED void poke(volatile struct thread_cache *cache) {
    cache->medium_size_max = SMALL_SIZE_MAX;
    cache->counted_size_max = 0;
}

/* The fence: an owner that sets these words at the same moment sees the new round, or we write
 * after it (thread_sampler.c, adopt). Caches that are nobody's are empty. */
PRIM_COLD void thread_cache_poke(void) {
    thread_cache_nest();
    lock_acquire(&caches.lock, LOCK_CACHES);
    atomic_thread_fence(memory_order_seq_cst);
    size_table_fill();
    for (struct thread_cache *cache = thread_cache_active; cache; cache = cache->next) {
        poke(cache);
    }
    lock_release(&caches.lock, LOCK_CACHES);
    thread_cache_leave();
}

void thread_cache_fork_prepare(void) {
    lock_acquire_unranked(&caches.lock);
}

void thread_cache_fork_parent(void) {
    lock_release_unranked(&caches.lock);
}

/* The other threads are gone, perhaps in the middle of a push: what their caches held cannot be
 * trusted and is given up, at most options.cache_thread for each. */
PRIM_COLD void thread_cache_fork_child(void) {
    lock_reset(&caches.lock);
    thread_cache_active = NULL;
    store_relaxed(&caches.count, 0);
    if (has_cache()) {
        list_insert(&thread_cache_active, own_cache);
        store_relaxed(&caches.count, 1);
    }
}
