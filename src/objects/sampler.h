/* sampler.h - every so many bytes one allocation is shown to whoever asked for it.
 *
 * What is promised. Each allocation is sampled independently of all others, with the probability
 *
 *     p = 1 - exp(-counted size / interval)
 *
 * as if points were strewn over the stream of bytes, interval apart on average (a Poisson process),
 * and the blocks sampled that a point falls into. The counted size is that of the block's size
 * class; above MEDIUM_SIZE_MAX, and where an alignment above 8 is asked for, it is the size asked
 * for or that of the class that serves it: sample.counted_size says. With the weight 1 / p, the sum
 * of weights estimates the number of allocations, and the sum of weight * size, the size asked for,
 * their bytes: both without bias, for each call site by itself, whatever its sizes. So do the
 * samples whose blocks still live for what lives.
 *
 * How it costs nothing while off, and little while on: thread_sampler.h. There each thread draws,
 * for each class, how many blocks go out before the next sample (geometric, which an exponential
 * draw in bytes, rounded down to blocks, is), and for large blocks how many bytes. A thread that
 * cannot count throws for each allocation. As nothing is remembered between throws, a thread may
 * forget what it has drawn at any time: when the interval changes, after a fork.
 *
 * Several users, each with its own interval, share one stream: the rates add up, and when a sample
 * is due, throws tell whose it is: for each user as if it were alone.
 *
 * What samples cost is bounded for users that have a budget, a part of the time: where there would
 * be too many, their intervals are stretched, for each size class by itself (sampling_budget.h).
 * The stretch belongs to the draw: who draws, or throws, asks for it before, and the weight is that
 * of the stretched interval. So sums are as unbiased as ever, only coarser.
 *
 * Sampled blocks must be known when they are freed, at no cost for the others. Those that a class
 * would serve come from an arena of the sampler's own; spans of large ones have a mark; a user may
 * also give a block of its own, in slices with CLASS_PLACED. None of these has room in a thread
 * cache, so all come back by the slow door.
 *
 * A block that realloc moves ends, and another one begins; so it does where a large one becomes
 * another number of slices. Others keep their weight, and their size is brought up to date. Which
 * it is must not depend on being sampled: so blocks in the arena are of just their class's size,
 * and so are large ones in the place of those of a class (sparse.h), which realloc keeps as those.
 * Blocks of first-class heaps are not sampled. Those of tags are, where they are: each that ends is
 * announced, sampled or not, so end() must bear blocks that it does not know.
 *
 * Users start and stop at any time. A thread takes notice when it next passes the slow door; start
 * sees to it that this is its next allocation of a small block (thread_cache_poke). fork's child
 * goes on sampling, with draws of its own. Without memory for a sampled block, the allocation is
 * served unsampled. */
#ifndef PRIM_OBJECTS_SAMPLER_H
#define PRIM_OBJECTS_SAMPLER_H

#include "base/atomics.h"

enum { SAMPLER_USERS_MAX = 4 };

struct sample {
    size_t size;         /* asked for */
    size_t alignment;    /* asked for; 0: none */
    size_t counted_size; /* that decided the probability */
    unsigned stretch; /* under which it was drawn: intervals of those with a budget times 2^ it */
    double weight;    /* how many allocations like this one it stands for, for this user */
};

/* Static; its functions are called with no lock held, by any thread, and must not allocate. */
struct sampler_user {
    _Atomic size_t interval; /* (atomic: hint) mean bytes between samples; 0: none are wanted */
    _Atomic unsigned budget; /* (atomic: hint) millionths of the time; 0: as much as it takes */
    size_t size_max;         /* counted sizes above are not wanted; 0: all are */

    /* A block of the user's own for this sample, or NULL. May be NULL itself. */
    void *(*place)(const struct sample *sample);

    /* The sampled block is about to be handed out. NULL for a user that only places. */
    void (*begin)(void *block, const struct sample *sample);

    /* A sampled block, of any user, is about to be freed, or to be moved by realloc; or it has
     * another size now, if that is not 0. Goes on after the user has stopped. May be NULL. Whether
     * it knew the block is of no matter. */
    bool (*end)(void *block, size_t size);

    /* Of a block that the user placed. */
    size_t (*usable_size)(const void *block);
    void (*release)(void *block);
};

/* 0 until somebody starts; changes whenever the users or their intervals do. */
extern PRIM_HIDDEN _Atomic unsigned sampler_round; /* (atomic: sampler) */

/* Whether anybody ever was sampling: only then is there anything to look after. */
PRIM_INLINE bool sampler_was_started(void) {
    return PRIM_UNLIKELY(load_relaxed(&sampler_round) != 0);
}

/* Blocks of less than this size need not be counted by a thread of a hardened heap: all small ones
 * until somebody starts, then none for good. */
extern PRIM_HIDDEN _Atomic size_t sampler_size_min; /* (atomic: hint) */

/* Begins or changes the interval; not before the heap is ready. False without memory, or when
 * there are too many users. */
bool sampler_start(struct sampler_user *user, size_t interval);
void sampler_stop(struct sampler_user *user);

/* The stretch for the next draw or throw. */
unsigned sampler_stretch(size_t counted_size);

/* Mean bytes between samples of those users, from this one on, who want this size; 0 if nobody
 * does. */
double sampler_mean(unsigned index, size_t counted_size, unsigned stretch);

/* The greatest size that anybody wants; 0 while nobody wants any. */
extern PRIM_HIDDEN _Atomic size_t sampler_size_max; /* (atomic: hint) */

/* The next number of a generator; its state may be anything. */
uint64_t sampler_random(uint64_t *state);

/* How many allocations of this size go unsampled before the next one that is. */
uint64_t sampler_draw(uint64_t *random, double mean, size_t counted_size);

/* 1 - exp(-size / interval) */
double sampler_probability(size_t size, double interval);

/* One throw for one allocation: whether it is sampled. Fills in the stretch. */
bool sampler_chooses(uint64_t *random, struct sample *sample);

/* A block for an allocation that is to be sampled; NULL if it must be served unsampled. */
void *sampler_allocate(uint64_t *random, struct sample *sample);

/* The block, large or a tag's, which is in nobody's hands yet, is sampled. */
void sampler_begin_large(uint64_t *random, void *block, struct sample *sample);

/* A sampled block ends, or goes on with another size if that is not 0. */
void sampler_end(void *block, size_t size);

/* For blocks in slices with CLASS_PLACED. */
void sampler_release_placed(void *block);
size_t sampler_placed_size(const void *block);

void sampler_fork_child(void);

#endif
