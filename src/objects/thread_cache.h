/* thread_cache.h - the blocks that one thread keeps for itself.
 *
 * A bin for each size class: a list of free blocks (head), the room left in it, and a spare list
 * that the head is exchanged with when it runs empty or over; a bin of few blocks has all in its
 * head, twice its capacity (bin.h). Nothing here is shared: the owner alone writes, and reads but
 * for statistics, without atomics. Blocks enter a bin whoever's slab they come from.
 *
 * Invariants: room[c] + length of head[c] = bin_head_most(c) for every class in use; one not yet in
 * use, class 0, CLASS_LARGE and what follows it have no head and no room, so that malloc and free
 * of them leave the fast path by the test that they make anyway. While a thread has no cache, or
 * has one but options_see_every_call(), a watcher (watcher.h) or a tag in force (tag.h), `visible`
 * is the empty cache: all zero, never written.
 *
 * While the thread is inside the slow door, or holds a lock elsewhere, `visible` lies within the
 * empty cache, by so many words as it is deep inside: a signal handler's call then leaves the fast
 * path, too, and sees that it must touch nothing (reserve.h).
 *
 * While allocations are sampled (thread_sampler.h) malloc of small sizes pops from second bins,
 * which free knows nothing of, and which the invariant above does not hold for.
 *
 * Bounds: a bin's capacity starts small, doubles when the bin runs over or empty, and is bounded
 * by bytes; the sum of a thread's capacities by options.cache_thread and by the thread's part of
 * options.cache_total, which a thread among others earns by its slow events: most threads sleep,
 * and what they keep is lost to the rest. Low-water collection: every so many slow events each
 * bin's head is set aside as its spare; what is still there at the next visit was not needed
 * meanwhile and is given away. Lists that are given go to whoever runs empty next, and to their
 * slabs if nobody does (slab_transfer.h). */
#ifndef PRIM_OBJECTS_THREAD_CACHE_H
#define PRIM_OBJECTS_THREAD_CACHE_H

#include "base/atomics.h"
#include "objects/size_class.h"

enum {
    HEAD_COUNT = BIN_COUNT + SMALL_CLASS_LAST + 1, /* the bins, and the second bins */
    MEDIUM_CLASS_FIRST = SMALL_CLASS_LAST + 1,
    MEDIUM_CLASSES = CLASS_COUNT - SMALL_CLASS_LAST,
    TAG_DEPTH_MAX = 32, /* tags in force, one within another */
};

struct thread_sampler;
struct hardened_cache;

/* What a bin has besides head and room. */
struct bin {
    void *spare;              /* (owner) a second list */
    uint16_t spare_count;     /* (owner) blocks in it */
    uint16_t capacity;        /* (owner) 0: not in use yet, or no budget for it */
    uint32_t only_freed : 24; /* (owner) bytes that ran over since the bin was refilled, at most */
    uint32_t came_back : 4;   /* (owner) what ran over was wanted again: CAME_BACK, .._MUCH, or 0 */
    uint32_t is_rest : 1;     /* (owner) the spare is what is left of a list that is being given */
};

/* What few threads need: others' lie next to it, so that its pages stay untouched. */
struct thread_cache_rest {
    struct bin bins[MEDIUM_CLASSES];
    int32_t medium_left[MEDIUM_CLASSES]; /* (owner) blocks that go out unsampled */
    uint8_t borrowed[MEDIUM_CLASSES];    /* (owner) since the collection: bin_borrow */
    uint16_t tags_before[TAG_DEPTH_MAX]; /* (owner) what each push found in force */
};

struct thread_cache {
    void *head[HEAD_COUNT];          /* (owner) free blocks, linked through their first word */
    int32_t room[HEAD_COUNT];        /* (owner) blocks that fit before the bin is full */
    size_t medium_size_max;          /* (owner) malloc pops blocks up to this size ... */
    size_t counted_size_max;         /* (owner) ... and counts them up to this, while sampling */
    bool is_sampling;                /* (owner) the second bins are in use */
    bool has_borrowed;               /* (owner) since the collection: rest->borrowed */
    bool has_earned;                 /* (owner) it was others' before: bin_capacity_start */
    uint8_t marks;                   /* (owner) thread_cache_exchange_mark */
    unsigned sampler_round;          /* (owner) the one that it was last set up for */
    struct thread_sampler *sampler;  /* (owner) NULL until the thread first samples */
    struct hardened_cache *hardened; /* (owner) NULL unless options.hardened */

    struct thread_cache_rest *rest;        /* (const) */
    struct bin bins[SMALL_CLASS_LAST + 1]; /* those of medium classes are in the rest: bin_of */
    uint64_t in_use[2];                    /* (owner) one bit a class: it was asked for or freed */
    uint64_t was_moved[2];  /* (owner) one bit a class: spare taken or set since visit */
    size_t capacity_bytes;  /* (owner) sum of capacity * size over the classes */
    uint64_t slow_events;   /* (owner) refills and overflows, drives collection */
    uint32_t visited_class; /* (owner) where the next collection goes on */

    uint32_t tag_depth; /* (owner) pushes not taken back */
    uint16_t tag;       /* (owner) in force; 0: none */
    uint16_t label;     /* (owner) of the thread's name, and for how long: thread_label.c */
    _Atomic uint32_t ignored_depth; /* (owner) within what is no leak: profile_exact.c */

    struct thread_cache *next;     /* (lock: CACHES) in the list of caches, or of unused ones */
    struct thread_cache *previous; /* (lock: CACHES) */
};

/* The empty cache, and as much behind it as `visible` may point into it. */
struct thread_cache_none {
    struct thread_cache cache;
    uint64_t depths[32];
};
extern PRIM_HIDDEN struct thread_cache_none thread_cache_none; /* (const) all zero */

/* (lock: CACHES) The caches of living threads. */
extern PRIM_HIDDEN struct thread_cache *thread_cache_active;

/* What the fast paths use: the thread's cache, or the empty one. One word of static TLS. */
extern PRIM_HIDDEN PRIM_THREAD_LOCAL struct thread_cache *thread_cache_visible;

/* Whether the calling thread is inside already: then a signal handler makes this call. */
PRIM_INLINE bool thread_cache_is_inside(void) {
    uintptr_t depth = (uintptr_t)thread_cache_visible - (uintptr_t)&thread_cache_none;
    return depth - 1 < sizeof thread_cache_none.depths;
}

/* Enters when the thread is known to be outside, for a few steps that hold no lock; and leaves. */
PRIM_INLINE void thread_cache_enter_shortly(void) {
    thread_cache_visible =
        (struct thread_cache *)((uintptr_t)&thread_cache_none + sizeof thread_cache_none.depths[0]);
    order_for_handlers();
}

PRIM_INLINE void thread_cache_leave_shortly(struct thread_cache *visible) {
    order_for_handlers();
    thread_cache_visible = visible;
}

/* Enters, unless the thread is inside already. */
PRIM_INLINE bool thread_cache_enter(void) {
    if (PRIM_UNLIKELY(thread_cache_is_inside())) {
        return false;
    }
    thread_cache_enter_shortly();
    return true;
}

/* Enters, perhaps once more: for what must not be done in a signal handler that interrupted us. */
void thread_cache_nest(void);

/* Leaves, and frees what handlers could not, unless the thread is inside still. */
void thread_cache_leave(void);

/* The same for a thread that has entered once and whose cache this is. */
void thread_cache_leave_to(struct thread_cache *cache);

/* The calling thread's cache, made at the first call; NULL for a thread that is past its
 * destructors or when there is no memory: then work with the slabs directly. */
struct thread_cache *thread_cache_own(void);

/* Whether the calling thread is past its destructors, or refused to have a cache. */
bool thread_cache_has_ended(void);

/* The calling thread, which has no cache, shall never get one. */
void thread_cache_refuse(void);

/* Whether the calling thread has a cache and no other thread has one. */
bool thread_cache_is_only(void);

/* Takes the first block of a bin's head, which the caller has looked at: it is this one. */
PRIM_INLINE void *thread_cache_pop(struct thread_cache *cache, size_t bin, void *block) {
    cache->head[bin] = *(void **)block;
    cache->room[bin]++;
    return block;
}

/* Fills the empty head of a bin and takes one block, aligned as the class is, or as asked if that
 * is not 0; NULL when there is no memory. Where zeros are wanted, is_zero is as in slab_acquire. */
void *thread_cache_refill(struct thread_cache *cache, unsigned object_class, size_t alignment,
                          bool *is_zero);

/* Makes room in a full bin and puts one block in. */
void thread_cache_overflow(struct thread_cache *cache, unsigned object_class, void *block);

/* Gives everything away that the calling thread's cache holds. */
void thread_cache_flush(struct thread_cache *cache);

/* Called once, before any cache is made, under no lock. */
void thread_cache_initialise(void);

/* Lets all threads know soon that the sampler's users have changed. */
void thread_cache_poke(void);

/* Leaves the medium sizes to malloc, or to who counts them, as the thread is sampling or not. */
void thread_cache_set_medium(struct thread_cache *cache);

/* Bytes that the capacities of one thread may add up to. */
size_t thread_cache_budget(const struct thread_cache *cache);

/* A slow event: does one piece of what is due now and then, so that no call is long. Returns
 * whether there was any, which is work enough for one call. */
bool thread_cache_note_event(struct thread_cache *cache);

/* The shard that the calling thread gets its blocks from. */
unsigned thread_cache_shard(void);

/* Whether there are more threads than shards: then some wait for a processor, and what they keep
 * meanwhile is nobody's. */
bool thread_cache_may_wait(void);

/* Whether a thread has begun with the cache of one that ended: threads come and go. */
bool thread_cache_is_inherited(void);

/* Hides the calling thread's cache from the fast path, or shows it, as somebody wants to see every
 * call (options_see_every_call, watcher_is_any) or nobody does. */
void thread_cache_show(void);

/* Sets one of the calling thread's marks, a bit for each function of the program's or of an
 * observer's that the thread may be inside; returns what it was. */
bool thread_cache_exchange_mark(unsigned mark, bool value);

/* Applies options that were read after the calling thread's cache was made. */
void thread_cache_apply_options(void);

struct thread_cache_totals {
    unsigned cache_count;
    unsigned cache_peak;        /* most at a time */
    unsigned cache_total;       /* threads that ever had one */
    uint64_t slow_events;       /* of caches that were, too */
    uint32_t blocks[BIN_COUNT]; /* free blocks in all caches, by class */
};

/* Adds what the caches hold up without stopping their owners: exact for those that are not inside
 * the library, else of some recent moment. */
void thread_cache_totals_add(struct thread_cache_totals *totals);

void thread_cache_fork_prepare(void);
void thread_cache_fork_parent(void);
void thread_cache_fork_child(void);

#endif
