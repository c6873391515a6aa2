/* thread_sampler.h - how one thread counts up to its next samples; see sampler.h for what is
 * promised.
 *
 * Small sizes. While a thread samples, malloc takes their blocks from bins that it alone takes from
 * and that nobody frees to, so what a bin was given and what is still in it tell how many blocks
 * were handed out: *counted* bins. Each gets no more blocks than may go out before the next sample
 * of its class. When it is empty and that number has come down to 0, the allocation is sampled.
 * malloc finds such bins because the table of sizes names second bins, BIN_COUNT behind those that
 * free pushes on, from which they are filled: a whole list at a time, so that a thread that frees
 * as much as it allocates pays a few instructions for each list. Lists that stay short in spite of
 * that are made longer by fresh blocks, up to LIST_SIZE.
 *
 * Medium sizes. malloc pops blocks up to the cache's medium_size_max. While the thread samples,
 * that leaves all of them to a path behind it, which counts them as it pops them.
 *
 * Large sizes. The bytes that are left until the next sample are counted down, for each group of
 * sizes by itself (sampling_budget.h); all sizes of a group are wanted by the same users. Those of
 * a class (sparse.h) come from its bin unless they are sampled.
 *
 * Where a class is stretched, draws reach no farther than some bytes, so that a thread finds out
 * when it no longer is.
 *
 * A thread without a cache throws for each allocation, as does one of a hardened heap. Blocks of
 * counted bins that are given back unused are counted again. */
#ifndef PRIM_OBJECTS_THREAD_SAMPLER_H
#define PRIM_OBJECTS_THREAD_SAMPLER_H

#include "objects/sampler.h"
#include "objects/sampling_budget.h"
#include "objects/thread_cache.h"

/* A small class. */
struct counted {
    int32_t left;    /* (owner) blocks behind the bin's that go out unsampled */
    int32_t seen;    /* (owner) blocks popped at the last collection */
    uint16_t given;  /* (owner) blocks that the bin was filled with */
    uint16_t wanted; /* (owner) blocks of a list that need not be longer */
    uint32_t lack;   /* (owner) blocks that lists were too short since fresh ones came */
};

/* A group of sizes that see_large is told of. */
struct large {
    int64_t left;    /* (owner) bytes that go out unsampled; below 0: undrawn */
    uint8_t stretch; /* (owner) with which they were drawn */
    bool is_drawn;   /* (owner) then a sample comes; else it is time to draw again */
};

struct thread_sampler {
    uint64_t random;      /* (owner) state of the generator */
    uint64_t is_drawn[2]; /* (owner) one bit a class: its sample comes when nothing is left */
    uint8_t stretch[CLASS_COUNT + 1];             /* (owner) with which it was drawn */
    struct counted counted[SMALL_CLASS_LAST + 1]; /* (owner) */
    struct large large[SAMPLING_GROUPS];          /* (owner) */
};

/* The class that a bin is for. */
PRIM_INLINE unsigned thread_sampler_class(unsigned bin) {
    return bin >= BIN_COUNT ? bin - BIN_COUNT : bin;
}

/* Sets the cache up for the users that there are now. Cheap if nothing has changed. */
void thread_sampler_adopt(struct thread_cache *cache);

/* Whether the thread has taken notice of the users that there are: it counts, or nobody does. */
PRIM_INLINE bool thread_sampler_is_current(const struct thread_cache *cache) {
    return cache->sampler_round == load_relaxed(&sampler_round);
}

/* Counts one more block of a medium class that goes out unsampled, if this one does. */
PRIM_INLINE bool thread_sampler_count_medium(struct thread_cache *cache, size_t object_class) {
    int32_t *left = &cache->rest->medium_left[object_class - MEDIUM_CLASS_FIRST];
    if (PRIM_UNLIKELY(compiler_is_spent(left))) {
        return false;
    }
    --*left;
    return true;
}

/* Whether the class's count says by itself that this allocation is not sampled. */
PRIM_INLINE bool thread_sampler_passes(struct thread_cache *cache, unsigned object_class) {
    if (!cache->is_sampling || !thread_sampler_is_current(cache)) {
        return false;
    }
    return object_class <= SMALL_CLASS_LAST ? cache->head[object_class + BIN_COUNT] ||
                                                  cache->sampler->counted[object_class].left > 0
                                            : thread_sampler_count_medium(cache, object_class);
}

/* A block from the bin of a medium class that goes out unsampled; NULL where the bin is empty, or
 * anything else is to be looked at. That the counts hold, counted_size_max says. */
PRIM_INLINE void *thread_sampler_take_medium(struct thread_cache *cache, size_t object_class) {
    void *block = cache->head[object_class];
    bool passes = PRIM_LIKELY(block != NULL) && thread_sampler_count_medium(cache, object_class);
    return PRIM_LIKELY(passes) ? thread_cache_pop(cache, object_class, block) : NULL;
}

/* The same for any class, of a thread that samples. */
PRIM_INLINE void *thread_sampler_take(struct thread_cache *cache, unsigned object_class) {
    if (object_class > SMALL_CLASS_LAST) {
        return thread_sampler_is_current(cache) ? thread_sampler_take_medium(cache, object_class)
                                                : NULL;
    }
    unsigned bin = object_class + BIN_COUNT;
    void *block = cache->head[bin];
    return block ? thread_cache_pop(cache, bin, block) : NULL;
}

/* Called for each other allocation behind the slow door once sampling was ever started: a sampled
 * block, or NULL if this one is to be served as always, by thread_sampler_pop if its class is small
 * and the cache is sampling. The cache may be NULL. */
void *thread_sampler_allocate(struct thread_cache *cache, unsigned object_class, size_t size,
                              size_t alignment);

/* The quick half of all that for a small size: a block for a thread whose visible cache is
 * sampling, or NULL, and then nothing is done. Called from inside. */
void *thread_sampler_exchange(struct thread_cache *cache, size_t size);

/* A block of a small class that is not sampled; NULL without memory. */
void *thread_sampler_pop(struct thread_cache *cache, unsigned object_class);

/* A new large block, one that realloc made greater, one of a tag: counts it, and tells the users if
 * it is sampled. NULL: one of a class that counts as large; if it is sampled, a large block in its
 * place comes back, with a mark by which realloc does with it as with those of the class. */
void *thread_sampler_see_large(void *block, size_t size, size_t alignment);

/* Gives back what lies in the counted bin of a class. */
void thread_sampler_flush(struct thread_cache *cache, unsigned object_class);

/* The same for one class if nobody has popped since the last call. */
void thread_sampler_collect(struct thread_cache *cache, unsigned object_class);

/* Blocks in the counted bin of a class; for any thread's cache, of late. */
unsigned thread_sampler_held(const volatile struct thread_cache *cache, unsigned object_class);

/* The cache's next draws follow from the seed. */
void thread_sampler_seed(struct thread_cache *cache, uint64_t seed);

/* The child makes draws of its own. The cache may be NULL. */
void thread_sampler_fork_parent(void);
void thread_sampler_fork_child(struct thread_cache *cache);

#endif
