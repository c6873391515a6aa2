/* thread_sampler.h - how one thread counts up to its next samples; see sampler.h for what is
 * promised.
 *
 * While a thread samples, malloc takes from bins that it alone takes from and that nobody frees to,
 * so what a bin was given and what is still in it tell how many blocks were handed out: *counted*
 * bins. Each gets no more blocks than may go out before the next sample of its class. When it is
 * empty and that number has come down to 0, the allocation is sampled. Small sizes find such bins
 * because class_of names second bins, BIN_COUNT behind those that free pushes on, from which they
 * are filled: a whole list at a time, so that a thread that frees as much as it allocates pays a
 * few instructions for each list. Medium sizes find their bins by arithmetic: there the first bin
 * is counted, and has no room, so that frees take the slow door and put the block on the spare
 * list. Medium sizes that no user wants are left as they are.
 *
 * What passes the slow door in any other way (aligned, large, a thread without a cache) throws for
 * itself. Blocks of counted bins that are given back unused were drawn for in vain, which changes
 * nothing: draws know nothing of each other. */
#ifndef PRIM_OBJECTS_THREAD_SAMPLER_H
#define PRIM_OBJECTS_THREAD_SAMPLER_H

#include "objects/sampler.h"
#include "objects/thread_cache.h"
#include "pages/address_map.h"

/* The class that a bin is for. */
PRIM_INLINE unsigned thread_sampler_class(unsigned bin) {
    return bin >= BIN_COUNT ? bin - BIN_COUNT : bin;
}

/* Sets the cache up for the users that there are now. Cheap if nothing has changed. */
void thread_sampler_adopt(struct thread_cache *cache);

/* Called for each allocation behind the slow door once sampling was ever started: a sampled block,
 * or NULL if this one is to be served as always, by thread_sampler_pop if the cache is sampling.
 * The cache may be NULL; alignment 0 says that a counted bin serves the call. */
void *thread_sampler_allocate(struct thread_cache *cache, unsigned object_class, size_t size,
                              size_t alignment);

/* The quick half of all that: a block for a thread whose visible cache is sampling, or NULL if the
 * call must take the slow door. Called from outside. */
void *thread_sampler_exchange(struct thread_cache *cache, size_t size);

/* A block that is not sampled; NULL without memory. */
void *thread_sampler_pop(struct thread_cache *cache, unsigned object_class, size_t alignment);

/* A new large block, one that realloc made greater, one of a tag: throws, and tells the users. */
void thread_sampler_see_large(void *block, size_t size, size_t alignment);

/* Whether the spare list of a counted bin has no room: it holds what head and spare of other bins
 * hold together. */
PRIM_INLINE bool thread_sampler_is_full(const struct thread_cache *cache, unsigned object_class) {
    return cache->spare_count[object_class] >= 2u * cache->capacity[object_class];
}

PRIM_INLINE void thread_sampler_push(struct thread_cache *cache, unsigned object_class,
                                     void *block) {
    *(void **)block = cache->spare[object_class];
    cache->spare[object_class] = block;
    cache->spare_count[object_class]++;
}

/* Frees a block of a medium class whose bin is counted, if that is all there is to do. Every such
 * free comes here. Without an address map all take the slow door. */
PRIM_INLINE bool thread_sampler_release(struct thread_cache *cache, void *block) {
    size_t object_class = address_map_class(block);
    size_t last = cache->counted_last;
    if (object_class <= SMALL_CLASS_LAST || object_class > last) {
        return false;
    }
    PRIM_FORGET(object_class);
    if (thread_sampler_is_full(cache, (unsigned)object_class)) {
        return false;
    }
    thread_sampler_push(cache, (unsigned)object_class, block);
    return true;
}

/* The same when there is no room, or when the caller has already looked. */
void thread_sampler_overflow(struct thread_cache *cache, unsigned object_class, void *block);

/* Gives back what lies in the counted bin of a class. */
void thread_sampler_flush(struct thread_cache *cache, unsigned object_class);

/* The same for one class if nobody has popped since the last call. */
void thread_sampler_collect(struct thread_cache *cache, unsigned object_class);

/* Blocks in the counted bin of a class; for any thread's cache, of late. */
unsigned thread_sampler_held(const volatile struct thread_cache *cache, unsigned object_class);

/* The cache's next draws follow from the seed. */
void thread_sampler_seed(struct thread_cache *cache, uint64_t seed);

/* The child makes draws of its own. */
void thread_sampler_fork_parent(void);
void thread_sampler_fork_child(struct thread_cache *cache);

#endif
