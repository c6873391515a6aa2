/* thread_sampler.c - see thread_sampler.h. */
#include "objects/thread_sampler.h"

#include <errno.h>

#include "objects/bin.h"
#include "objects/deferred_free.h"
#include "objects/slab.h"
#include "objects/threshold.h"
#include "os/machine.h"
#include "pages/metadata.h"

enum {
    NO_ROOM = INT32_MIN / 2, /* however much is popped, the bin looks full to free */
    LIST_PART = 2,           /* a list shorter than this part of the capacity is not worth taking */
    LIST_LEAST = 16,         /* where slabs give shorter ones: a list shorter than this is not */
};

#define UNDRAWN UINT64_MAX

struct thread_sampler {
    uint64_t random;                 /* (owner) state of the generator */
    uint64_t left[CLASS_COUNT + 1];  /* (owner) blocks behind the bin's that go out unsampled */
    uint16_t given[CLASS_COUNT + 1]; /* (owner) blocks that the bin was filled with */
    int32_t seen[CLASS_COUNT + 1];   /* (owner) the bin's room at the last collection */
    bool is_scarce[CLASS_COUNT + 1]; /* (owner) slabs gave few blocks when last asked */
};

PRIM_INLINE unsigned counted_bin(unsigned object_class) {
    return object_class <= SMALL_CLASS_LAST ? object_class + BIN_COUNT : object_class;
}

static _Atomic uint64_t seeds; /* (atomic: counter) */

static void seed_anew(struct thread_sampler *sampler) {
    sampler->random += add_relaxed(&seeds, 1) + ((uintptr_t)sampler ^ machine_clock_ms() << 32);
    sampler_random(&sampler->random);
}

void thread_sampler_flush(struct thread_cache *cache, unsigned object_class) {
    unsigned bin = counted_bin(object_class);
    if (object_class <= cache->counted_last && cache->sampler->given[object_class]) {
        void *list = cache->head[bin];
        cache->head[bin] = NULL;
        cache->room[bin] = NO_ROOM;
        cache->sampler->given[object_class] = 0;
        cache->sampler->left[object_class] = UNDRAWN; /* it counted on the blocks of the list */
        if (list) {
            slab_release(object_class, list);
        }
    }
}

PRIM_COLD void thread_sampler_collect(struct thread_cache *cache, unsigned object_class) {
    int32_t room = cache->room[counted_bin(object_class)];
    if (cache->sampler->seen[object_class] == room) {
        thread_sampler_flush(cache, object_class);
    }
    cache->sampler->seen[object_class] = room;
}

static void forget_draws(struct thread_sampler *sampler) {
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        sampler->left[object_class] = UNDRAWN;
    }
}

static PRIM_COLD void adopt(struct thread_cache *cache, unsigned round) {
    size_t most = sampler_size_max();
    thread_cache_flush(cache); /* from here on all bins are empty, and capacities 0 */
    cache->sampler_round = round;
    if (most && !cache->sampler) {
        cache->sampler = metadata_allocate(sizeof *cache->sampler, PRIM_CACHE_LINE);
        if (cache->sampler) {
            seed_anew(cache->sampler);
        }
    }
    cache->is_sampling = most && cache->sampler;
    cache->counted_last = 0;
    if (cache->is_sampling) {
        size_t last = size_class_of(bits_clamp(most, SMALL_SIZE_MAX, MEDIUM_SIZE_MAX));
        cache->counted_last = (uint8_t)last;
        forget_draws(cache->sampler);
    }
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        bool is_counted = object_class <= cache->counted_last;
        cache->room[counted_bin(object_class)] = is_counted ? NO_ROOM : 0;
    }
    thread_cache_fill_table(cache);
}

void thread_sampler_adopt(struct thread_cache *cache) {
    unsigned round = load_acquire(&sampler_round); /* order pair: sampler */
    if (PRIM_UNLIKELY(cache->sampler_round != round)) {
        adopt(cache, round);
    }
}

/* Whether a counted bin has come to its next sample. */
static bool is_due(struct thread_cache *cache, unsigned object_class) {
    struct thread_sampler *sampler = cache->sampler;
    uint64_t *left = &sampler->left[object_class];
    if (object_class > cache->counted_last || cache->head[counted_bin(object_class)]) {
        return false;
    }
    if (*left == UNDRAWN) {
        size_t size = size_classes[object_class].size;
        double mean = sampler_mean(size);
        *left = mean > 0 ? sampler_draw(&sampler->random, mean, size) : UNDRAWN - 1;
    }
    if (*left) {
        return false;
    }
    *left = UNDRAWN;
    return true;
}

/* A generator for the calling thread: that of its cache, or one for this throw alone. */
static uint64_t *generator(struct thread_cache *cache, uint64_t *own) {
    static _Atomic uint64_t throws; /* (atomic: counter) */
    if (cache && cache->sampler) {
        return &cache->sampler->random;
    }
    *own = (uintptr_t)own + (add_relaxed(&throws, 1) << 32);
    sampler_random(own);
    return own;
}

PRIM_COLD void *thread_sampler_allocate(struct thread_cache *cache, unsigned object_class,
                                        size_t size, size_t alignment) {
    struct sample sample = {size, alignment, size_classes[object_class].size, 0};
    uint64_t own;
    if (cache) {
        thread_sampler_adopt(cache);
    }
    uint64_t *random = generator(cache, &own);
    bool is_sampled = cache && cache->is_sampling && alignment == 0
                          ? is_due(cache, object_class)
                          : sampler_chooses(random, sample.counted_size);
    if (!is_sampled) {
        return NULL;
    }
    int saved_errno = errno;
    void *block = sampler_allocate(random, sample);
    errno = saved_errno;
    return block;
}

PRIM_COLD void thread_sampler_see_large(void *block, size_t size, size_t alignment) {
    struct sample sample = {size, alignment, size, 0};
    uint64_t own;
    if (size > sampler_size_max()) {
        return;
    }
    struct thread_cache *cache = thread_cache_own();
    uint64_t *random = generator(cache, &own);
    if (sampler_chooses(random, size)) {
        sampler_begin_large(random, block, sample);
    }
}

/* Cuts a list behind its first count blocks; returns the rest. */
static PRIM_COLD void *cut(void *list, uint64_t count) {
    for (; count > 1; count--) {
        list = *(void **)list;
    }
    void *rest = *(void **)list;
    *(void **)list = NULL;
    return rest;
}

static unsigned take_head(struct thread_cache *cache, unsigned object_class, void **list) {
    unsigned count = bin_head_length(cache, object_class);
    *list = cache->head[object_class];
    cache->head[object_class] = NULL;
    cache->room[object_class] = cache->capacity[object_class];
    return count;
}

/* How long a list must be. Each costs a slow event, so short ones are left to grow as long as
 * there is another one, or the slabs have blocks; slabs that are nearly full give a few at a time,
 * which is shorter still. */
static unsigned list_least(const struct thread_cache *cache, unsigned object_class) {
    unsigned most = cache->sampler->is_scarce[object_class] ? LIST_LEAST : UINT32_MAX;
    unsigned least = (unsigned)bits_min(cache->capacity[object_class] / LIST_PART, most);
    return (unsigned)bits_max(least, 1);
}

static unsigned head_length(const struct thread_cache *cache, unsigned object_class) {
    return object_class <= SMALL_CLASS_LAST ? bin_head_length(cache, object_class) : 0;
}

/* Takes blocks for a counted bin from where free puts them. */
static unsigned take_list(struct thread_cache *cache, unsigned object_class, void **list) {
    bool has_head = object_class <= SMALL_CLASS_LAST && cache->head[object_class];
    unsigned least = list_least(cache, object_class);
    unsigned count = 0;
    if (head_length(cache, object_class) >= least) {
        return take_head(cache, object_class, list);
    }
    if (cache->spare_count[object_class] < least) {
        count = bin_take_fresh(cache, object_class, list);
        cache->sampler->is_scarce[object_class] = count < LIST_LEAST;
    }
    if (count == 0 && cache->spare[object_class]) {
        count = cache->spare_count[object_class];
        *list = bin_take_spare(cache, object_class);
    }
    return count == 0 && has_head ? take_head(cache, object_class, list) : count;
}

/* Puts what is left of a list where there is nothing, else back to the slabs. */
static void put_back(struct thread_cache *cache, unsigned object_class, void *list,
                     unsigned count) {
    if (!cache->spare[object_class]) {
        cache->spare[object_class] = list;
        cache->spare_count[object_class] = (uint16_t)count;
    } else if (!cache->head[object_class] && object_class <= SMALL_CLASS_LAST) {
        cache->head[object_class] = list;
        cache->room[object_class] = cache->capacity[object_class] - (int32_t)count;
    } else if (list) {
        slab_release(object_class, list);
    }
}

static PRIM_NOINLINE bool fill(struct thread_cache *cache, unsigned object_class) {
    struct thread_sampler *sampler = cache->sampler;
    unsigned bin = counted_bin(object_class);
    void *list;
    bin_begin_use(cache, object_class);
    thread_cache_note_event(cache);
    unsigned count = take_list(cache, object_class, &list);
    if (count == 0) {
        return false;
    }
    uint64_t left = sampler->left[object_class];
    left =
        left == UNDRAWN || left == 0 ? 1 : left; /* a sample found no memory: this goes without */
    if (count > left) {
        put_back(cache, object_class, cut(list, left), count - (unsigned)left);
        count = (unsigned)left;
    }
    bool was_drawn = sampler->left[object_class] != UNDRAWN;
    sampler->left[object_class] = was_drawn ? left - count : UNDRAWN;
    sampler->given[object_class] = (uint16_t)count;
    cache->head[bin] = list;
    cache->room[bin] = NO_ROOM;
    return true;
}

/* Free puts as much as malloc takes: their lists are exchanged, and that is all. Where anything
 * else is to be done, nothing is. */
PRIM_NOINLINE void *thread_sampler_exchange(struct thread_cache *cache, size_t size) {
    if (size > MEDIUM_SIZE_MAX || threshold_is_large(size)) {
        return NULL;
    }
    unsigned object_class = size <= SMALL_SIZE_MAX ? thread_sampler_class(cache->class_of[size])
                                                   : size_class_by_arithmetic(size);
    unsigned bin = counted_bin(object_class);
    uint64_t *left = &cache->sampler->left[object_class];
    unsigned least = list_least(cache, object_class);
    unsigned length = head_length(cache, object_class);
    unsigned count = length >= least ? length : cache->spare_count[object_class];
    if (object_class > cache->counted_last || cache->head[bin] || count < least || count > *left ||
        *left == UNDRAWN || cache->sampler_round != load_relaxed(&sampler_round) ||
        load_relaxed(&deferred_free_function)) {
        return NULL;
    }
    thread_cache_enter();
    if (count < LIST_LEAST) { /* so that there will be more blocks underway */
        bin_grow(cache, object_class);
    }
    void *list;
    if (length >= least) {
        take_head(cache, object_class, &list);
    } else {
        list = bin_take_spare(cache, object_class);
    }
    *left -= count;
    cache->sampler->given[object_class] = (uint16_t)count;
    cache->head[bin] = *(void **)list;
    cache->room[bin] = NO_ROOM + 1;
    thread_cache_leave();
    return list;
}

/* One block of a medium class, past its counted bin. */
static PRIM_COLD void *pop_spare(struct thread_cache *cache, unsigned object_class) {
    void *list;
    bin_begin_use(cache, object_class);
    thread_cache_note_event(cache);
    unsigned count = bin_take_list(cache, object_class, &list);
    if (count == 0) {
        return NULL;
    }
    put_back(cache, object_class, *(void **)list, count - 1);
    return list;
}

void *thread_sampler_pop(struct thread_cache *cache, unsigned object_class, size_t alignment) {
    unsigned bin = counted_bin(object_class);
    if (alignment) {
        if (bin == object_class) {
            return pop_spare(cache, object_class);
        }
        bin = object_class;
        if (!cache->head[bin]) {
            return thread_cache_refill(cache, bin);
        }
    } else if (!cache->head[bin] && !fill(cache, object_class)) {
        return NULL;
    }
    void *block = cache->head[bin];
    cache->head[bin] = *(void **)block;
    cache->room[bin]++;
    return block;
}

/* Cuts off and gives back the older half of a spare list. */
static PRIM_NOINLINE void shorten_spare(struct thread_cache *cache, unsigned object_class) {
    unsigned kept = cache->spare_count[object_class] / 2;
    if (kept) {
        void *rest = cut(cache->spare[object_class], kept);
        cache->spare_count[object_class] = (uint16_t)kept;
        slab_release(object_class, rest);
    } else if (cache->spare[object_class]) {
        slab_release(object_class, bin_take_spare(cache, object_class));
    }
}

PRIM_NOINLINE void thread_sampler_overflow(struct thread_cache *cache, unsigned object_class,
                                           void *block) {
    bin_begin_use(cache, object_class);
    thread_cache_note_event(cache);
    bin_grow(cache, object_class);
    if (thread_sampler_is_full(cache, object_class)) {
        shorten_spare(cache, object_class);
    }
    if (cache->capacity[object_class] == 0) { /* no budget for this class */
        *(void **)block = NULL;
        slab_release(object_class, block);
        return;
    }
    thread_sampler_push(cache, object_class, block);
}

PRIM_UNWATCHED unsigned thread_sampler_held(const volatile struct thread_cache *cache,
                                            unsigned object_class) {
    const volatile struct thread_sampler *sampler = cache->sampler;
    unsigned bin = counted_bin(object_class);
    if (object_class > cache->counted_last || !sampler || !cache->head[bin]) {
        return 0;
    }
    int32_t held = sampler->given[object_class] - (cache->room[bin] - NO_ROOM);
    return held > 0 ? (unsigned)held : 0;
}

void thread_sampler_seed(struct thread_cache *cache, uint64_t seed) {
    cache->sampler->random = seed;
    forget_draws(cache->sampler);
}

/* The next child will find another seed. */
void thread_sampler_fork_parent(void) {
    add_relaxed(&seeds, 1);
}

PRIM_COLD void thread_sampler_fork_child(struct thread_cache *cache) {
    if (cache->sampler) {
        seed_anew(cache->sampler);
        forget_draws(cache->sampler);
    }
}
