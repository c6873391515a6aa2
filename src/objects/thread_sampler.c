/* thread_sampler.c - see thread_sampler.h. */
#include "objects/thread_sampler.h"

#include <errno.h>

#include "base/assert.h"
#include "objects/bin.h"
#include "objects/deferred_free.h"
#include "objects/hardened.h"
#include "objects/large.h"
#include "objects/size_table.h"
#include "objects/slab.h"
#include "os/machine.h"
#include "pages/metadata.h"

enum {
    LEFT_MAX = INT32_MAX - 1, /* who has drawn more draws anew when so many have passed */
    FAR_SIZE = 64 << 20,      /* the same for bytes of a stretched class: to look at the stretch */
    LIST_SIZE = 8 * 1024,     /* bytes in a list that need not be longer: it lies idle ... */
    LIST_LEAST = 20,          /* ... but at least so many blocks, or calls become slow, ... */
    LIST_MOST = 256,          /* ... and at most so many */
    LACK_LISTS = 4, /* so many times the blocks of such a list may lack before fresh ones come */
};

static _Atomic uint64_t seeds; /* (atomic: counter) */

static void seed_anew(struct thread_sampler *sampler) {
    sampler->random += add_relaxed(&seeds, 1) + ((uintptr_t)sampler ^ machine_clock_ms() << 32);
    sampler_random(&sampler->random);
}

void thread_sampler_flush(struct thread_cache *cache, unsigned object_class) {
    unsigned bin = object_class + BIN_COUNT;
    if (object_class > SMALL_CLASS_LAST || !cache->head[bin]) {
        return;
    }
    void *list = cache->head[bin];
    int32_t held = (int32_t)thread_sampler_held(cache, object_class);
    cache->sampler->counted[object_class].left += held;
    cache->head[bin] = NULL;
    if (cache->room[object_class] < held) {
        slab_release(object_class, list);
        return;
    }
    void **end = &cache->head[object_class]; /* they are free, as those are */
    while (*end) {
        end = *end;
    }
    *end = list;
    cache->room[object_class] -= held;
}

PRIM_COLD void thread_sampler_collect(struct thread_cache *cache, unsigned object_class) {
    if (object_class <= SMALL_CLASS_LAST) {
        struct counted *counted = &cache->sampler->counted[object_class];
        int32_t popped = cache->room[object_class + BIN_COUNT];
        if (counted->seen == popped) {
            thread_sampler_flush(cache, object_class);
        }
        counted->seen = popped;
    }
}

static PRIM_COLD void flush_all(struct thread_cache *cache) {
    for (unsigned object_class = 1; object_class <= SMALL_CLASS_LAST; object_class++) {
        thread_sampler_flush(cache, object_class);
    }
}

/* How many blocks of a class, but for those in its counted bin, go out unsampled. */
static int32_t *left_of(struct thread_cache *cache, unsigned object_class) {
    return object_class <= SMALL_CLASS_LAST
               ? &cache->sampler->counted[object_class].left
               : &cache->rest->medium_left[object_class - MEDIUM_CLASS_FIRST];
}

static PRIM_COLD void forget_draws(struct thread_cache *cache) {
    struct thread_sampler *sampler = cache->sampler;
    sampler->is_drawn[0] = 0;
    sampler->is_drawn[1] = 0;
    for (unsigned i = 0; i < SAMPLING_GROUPS; i++) {
        sampler->large[i].left = -1;
    }
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        *left_of(cache, object_class) = 0;
    }
}

static PRIM_COLD bool make_sampler(struct thread_cache *cache) {
    struct thread_sampler *sampler = metadata_allocate(sizeof *sampler, PRIM_CACHE_LINE);
    if (sampler) {
        for (unsigned object_class = 1; object_class <= SMALL_CLASS_LAST; object_class++) {
            size_t count = LIST_SIZE / size_classes[object_class].size;
            sampler->counted[object_class].wanted =
                (uint16_t)bits_clamp(count, LIST_LEAST, LIST_MOST);
        }
        seed_anew(sampler);
    }
    cache->sampler = sampler;
    return sampler != NULL;
}

/* Without memory there is no taking notice. The fence: what thread_cache_poke writes is not written
 * over unless the round is seen. */
static PRIM_COLD bool adopt(struct thread_cache *cache, unsigned round) {
    bool is_wanted = load_relaxed(&sampler_size_max) != 0;
    flush_all(cache);
    cache->is_sampling = is_wanted && (cache->sampler || make_sampler(cache));
    if (cache->is_sampling) {
        forget_draws(cache);
    }
    cache->sampler_round = cache->is_sampling == is_wanted ? round : 0;
    thread_cache_set_medium(cache);
    atomic_thread_fence(memory_order_seq_cst);
    return cache->sampler_round != 0;
}

void thread_sampler_adopt(struct thread_cache *cache) {
    unsigned round = load_acquire(&sampler_round); /* order pair: sampler */
    while (PRIM_UNLIKELY(cache->sampler_round != round) && adopt(cache, round)) {
        round = load_acquire(&sampler_round); /* order pair: sampler */
    }
}

/* Whether a thread counts; set up for the users that there are now. */
static bool is_counting(struct thread_cache *cache) {
    if (!cache || hardened_is_on()) {
        return false;
    }
    thread_sampler_adopt(cache);
    return cache->is_sampling;
}

/* How many allocations of a class go unsampled before the next sample. Or before the next draw, if
 * this one is too great to be counted: those who remember nothing may draw at any time. */
static PRIM_COLD uint64_t draw(struct thread_sampler *sampler, unsigned object_class) {
    size_t size = size_classes[object_class].size;
    unsigned stretch = sampler_stretch(size);
    double mean = sampler_mean(0, size, stretch);
    uint64_t most = stretch ? FAR_SIZE / size : LEFT_MAX;
    uint64_t count = mean > 0 ? sampler_draw(&sampler->random, mean, size) : most;
    sampler->stretch[object_class] = (uint8_t)stretch;
    if (count >= most) {
        bin_unmark(sampler->is_drawn, object_class);
        return most;
    }
    bin_mark(sampler->is_drawn, object_class);
    return count;
}

/* Whether a class that nothing is left of has come to its next sample; tells how that was drawn. */
static PRIM_COLD bool is_due(struct thread_cache *cache, unsigned object_class, unsigned *stretch) {
    struct thread_sampler *sampler = cache->sampler;
    bool was_drawn = bin_is_marked(sampler->is_drawn, object_class);
    uint64_t left = was_drawn ? 0 : draw(sampler, object_class); /* with this one */
    bool is_sampled = left == 0;
    *stretch = sampler->stretch[object_class];
    if (is_sampled) {
        left = draw(sampler, object_class) + 1;
    }
    bool is_popped = !is_sampled && object_class <= SMALL_CLASS_LAST; /* it will be counted then */
    *left_of(cache, object_class) = (int32_t)(left - !is_popped);
    return is_sampled;
}

/* A generator for the calling thread: that of its cache, or one for this throw alone. */
static uint64_t *generator(struct thread_cache *cache, uint64_t *own) {
    static _Atomic uint64_t throws; /* (atomic: counter) */
    if (cache && cache->is_sampling) {
        return &cache->sampler->random;
    }
    *own = (uintptr_t)own + (add_relaxed(&throws, 1) << 32);
    sampler_random(own);
    return own;
}

/* Whether something is left of a class, in its counted bin or behind. */
static bool is_left(struct thread_cache *cache, unsigned object_class) {
    return *left_of(cache, object_class) > 0 ||
           (object_class <= SMALL_CLASS_LAST && cache->head[object_class + BIN_COUNT]);
}

PRIM_COLD void *thread_sampler_allocate(struct thread_cache *cache, unsigned object_class,
                                        size_t size, size_t alignment) {
    struct sample sample = {size, alignment, size_classes[object_class].size, 0, 0};
    uint64_t own;
    bool counts = is_counting(cache);
    if (counts && is_left(cache, object_class)) {
        return NULL;
    }
    uint64_t *random = generator(cache, &own);
    if (!(counts ? is_due(cache, object_class, &sample.stretch)
                 : sampler_chooses(random, &sample))) {
        return NULL;
    }
    int saved_errno = errno;
    void *block = sampler_allocate(random, &sample);
    errno = saved_errno;
    if (!block && counts && object_class <= SMALL_CLASS_LAST) {
        cache->sampler->counted[object_class].left++; /* it goes out unsampled */
    }
    return block;
}

/* Draws for a block that nothing is left for: whether it is sampled. */
static PRIM_COLD bool draw_large(struct thread_sampler *sampler, struct large *large, size_t size) {
    unsigned stretch = sampler_stretch(size);
    double mean = sampler_mean(0, size, stretch);
    uint64_t bytes = mean > 0 ? sampler_draw(&sampler->random, mean, 1) : INT64_MAX;
    uint64_t most = stretch ? FAR_SIZE : INT64_MAX;
    large->stretch = (uint8_t)stretch;
    if (bytes < size) {
        return true;
    }
    large->is_drawn = bytes - size < most;
    large->left = (int64_t)bits_min(bytes - size, most);
    return false;
}

static struct large *large_of(struct thread_sampler *sampler, size_t size) {
    return &sampler->large[sampling_budget_index(size)];
}

/* Whether enough is left for this block; counts it then. */
static bool is_large_left(struct large *large, size_t size) {
    bool is_left = large->left >= (int64_t)size;
    large->left -= is_left ? (int64_t)size : 0;
    return is_left;
}

static bool is_large_due(struct thread_sampler *sampler, struct sample *sample) {
    size_t size = sample->size;
    struct large *large = large_of(sampler, size);
    if (is_large_left(large, size)) {
        return false;
    }
    bool was_drawn = large->left >= 0 && large->is_drawn;
    bool is_sampled = was_drawn || draw_large(sampler, large, size);
    sample->stretch = large->stretch;
    large->left = is_sampled ? -1 : large->left;
    return is_sampled;
}

/* No arena has room for a block in the place of one of such a class. */
PRIM_COLD void *thread_sampler_see_large(void *block, size_t size, size_t alignment) {
    struct sample sample = {size, alignment, size, 0, 0};
    uint64_t own;
    if (size > load_relaxed(&sampler_size_max)) {
        return block;
    }
    struct thread_cache *cache = thread_cache_own();
    if (is_counting(cache) ? is_large_due(cache->sampler, &sample)
                           : sampler_chooses(generator(cache, &own), &sample)) {
        struct span *span = NULL;
        if (!block) {
            span = large_allocate(size_classes[size_class_sparse(size)].size, 0, NULL);
            block = span ? (void *)span->address : NULL;
        }
        if (block) {
            sampler_begin_large(generator(cache, &own), block, &sample);
        }
        if (span) {
            span->sampled = SPAN_SAMPLED_OF_CLASS;
        }
    }
    return block;
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

PRIM_INLINE unsigned take_head(struct thread_cache *cache, unsigned object_class, void **list) {
    unsigned count = bin_head_length(cache, object_class);
    *list = cache->head[object_class];
    cache->head[object_class] = NULL;
    cache->room[object_class] = bin_head_most(bin_of(cache, object_class));
    return count;
}

/* Whether the head is a list worth taking where there is no spare one. One that is too short is,
 * until all that were cost as much as fresh blocks do. */
static bool is_head_enough(struct thread_cache *cache, unsigned object_class,
                           struct counted *counted) {
    unsigned length = bin_head_length(cache, object_class);
    unsigned wanted = (unsigned)bits_min(counted->wanted, bin_of(cache, object_class)->capacity);
    if (length >= wanted) {
        return length > 0;
    }
    if (length == 0 || counted->lack >= LACK_LISTS * wanted) {
        return false;
    }
    counted->lack += wanted - length;
    return true;
}

/* Takes blocks for a counted bin from where free puts them. */
static unsigned take_list(struct thread_cache *cache, unsigned object_class, void **list) {
    struct counted *counted = &cache->sampler->counted[object_class];
    if (is_head_enough(cache, object_class, counted)) {
        return take_head(cache, object_class, list);
    }
    counted->lack = 0;
    unsigned count = bin_take_list(cache, object_class, list, NULL);
    if (count == 1) {
        *(void **)*list = NULL;
    }
    return count == 0 && cache->head[object_class] ? take_head(cache, object_class, list) : count;
}

/* Puts what is left of a list where there is nothing, else back to the slabs. */
static PRIM_COLD void put_back(struct thread_cache *cache, unsigned object_class, void *list,
                               unsigned count) {
    struct bin *bin = bin_of(cache, object_class);
    if (!bin->spare) {
        bin->spare = list;
        bin->spare_count = (uint16_t)count;
    } else if (!cache->head[object_class]) {
        cache->head[object_class] = list;
        cache->room[object_class] = bin_head_most(bin) - (int32_t)count;
    } else {
        slab_release(object_class, list);
    }
}

static PRIM_NOINLINE bool fill(struct thread_cache *cache, unsigned object_class) {
    struct counted *counted = &cache->sampler->counted[object_class];
    void *list;
    bin_begin_use(cache, object_class);
    thread_cache_note_event(cache);
    unsigned count = take_list(cache, object_class, &list);
    if (count == 0) {
        return false;
    }
    PRIM_ASSERT(counted->left > 0);
    unsigned left = (unsigned)counted->left;
    if (count > left) {
        put_back(cache, object_class, cut(list, left), count - left);
        count = left;
    }
    counted->left -= (int32_t)count;
    counted->given = (uint16_t)count;
    cache->head[object_class + BIN_COUNT] = list;
    cache->room[object_class + BIN_COUNT] = 0;
    return true;
}

/* Whether something wants to be looked after, by the slow door. */
PRIM_INLINE bool is_disturbed(const struct thread_cache *cache) {
    return cache->sampler_round != load_relaxed(&sampler_round) ||
           load_relaxed(&deferred_free_function) != NULL;
}

/* Fills the counted bin and takes the first block. */
PRIM_INLINE void *begin_list(struct thread_cache *cache, unsigned object_class, void *list,
                             unsigned count) {
    struct counted *counted = &cache->sampler->counted[object_class];
    counted->left -= (int32_t)count;
    counted->given = (uint16_t)count;
    cache->head[object_class + BIN_COUNT] = *(void **)list;
    cache->room[object_class + BIN_COUNT] = 1;
    return list;
}

static PRIM_NOINLINE void *exchange_other(struct thread_cache *cache, size_t size) {
    unsigned object_class = thread_sampler_class(size_table_bin(size));
    unsigned bin = object_class + BIN_COUNT;
    struct counted *counted = &cache->sampler->counted[object_class];
    if (cache->head[bin] || is_disturbed(cache)) {
        return NULL;
    }
    bool takes_head = is_head_enough(cache, object_class, counted);
    unsigned count = takes_head ? bin_head_length(cache, object_class)
                                : bin_of(cache, object_class)->spare_count;
    if (count == 0 || count > (unsigned)counted->left) {
        return NULL;
    }
    void *list;
    if (!takes_head) {
        list = bin_take_spare(cache, object_class);
    } else if (take_head(cache, object_class, &list) < counted->wanted) {
        bin_grow(cache, object_class); /* so that there may be more blocks underway */
    }
    return begin_list(cache, object_class, list, count);
}

/* Free puts as much as malloc takes: their lists are exchanged, and that is all. Where anything
 * else is to be done, nothing is. */
PRIM_NOINLINE void *thread_sampler_exchange(struct thread_cache *cache, size_t size) {
    unsigned object_class = thread_sampler_class(size_table_bin(size));
    unsigned bin = object_class + BIN_COUNT;
    const struct counted *counted = &cache->sampler->counted[object_class];
    unsigned count = bin_head_length(cache, object_class);
    if (PRIM_UNLIKELY(count < counted->wanted || count > (unsigned)counted->left ||
                      cache->head[bin] || is_disturbed(cache))) {
        return exchange_other(cache, size);
    }
    void *list;
    take_head(cache, object_class, &list);
    return begin_list(cache, object_class, list, count);
}

void *thread_sampler_pop(struct thread_cache *cache, unsigned object_class) {
    unsigned bin = object_class + BIN_COUNT;
    if (!cache->head[bin] && !fill(cache, object_class)) {
        return NULL;
    }
    return thread_cache_pop(cache, bin, cache->head[bin]);
}

PRIM_UNWATCHED unsigned thread_sampler_held(const volatile struct thread_cache *cache,
                                            unsigned object_class) {
    const volatile struct thread_sampler *sampler = cache->sampler;
    unsigned bin = object_class + BIN_COUNT;
    if (object_class > SMALL_CLASS_LAST || !sampler || !cache->head[bin]) {
        return 0;
    }
    int32_t held = sampler->counted[object_class].given - cache->room[bin];
    return held > 0 ? (unsigned)held : 0;
}

void thread_sampler_seed(struct thread_cache *cache, uint64_t seed) {
    flush_all(cache);
    cache->sampler->random = seed;
    forget_draws(cache);
}

/* The next child will find another seed. */
void thread_sampler_fork_parent(void) {
    add_relaxed(&seeds, 1);
}

PRIM_COLD void thread_sampler_fork_child(struct thread_cache *cache) {
    sampler_fork_child();
    if (cache && cache->sampler) {
        seed_anew(cache->sampler);
        forget_draws(cache);
    }
}
