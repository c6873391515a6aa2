/* slab.h - slabs of equal blocks, shared by all threads.
 *
 * Slabs are divided among shards, one for each processor or so: a block freed on one processor
 * and handed out on another would bring its cache line along. A thread refills from the shard of
 * the processor it runs on, or from the first while a class has few slabs (bin.c); a block always
 * returns to the shard that its slab belongs to.
 *
 * Locks: CLASS, one for each (shard, class). A slab's lists and counts belong to the lock of the
 * shard that its descriptor names. The name changes only under the old shard's lock, so whoever
 * wants the slab locks the shard it read and reads again (order pair: shard).
 *
 * Free blocks are linked through their first word. A slab whose last block came back goes to the
 * page heap at once; pages of other slabs that no used block lies in go back to the system when
 * slab_purge is called. */
#ifndef PRIM_OBJECTS_SLAB_H
#define PRIM_OBJECTS_SLAB_H

#include "pages/page_heap.h"

enum { SHARD_MAX = 64 };

/* Chooses the number of shards: as asked, or by the number of processors for 0. Until the first
 * call there is one, for one thread. May be called at any time, by several threads at once with
 * equal numbers. */
void slab_initialise(unsigned wanted);

/* Whether one thread has been enough so far. Several may share one shard, where there is one
 * processor. */
bool slab_is_for_one(void);

/* How many shards there are; 0 while one thread has been enough. */
unsigned slab_shard_count(void);

/* The shard of the processor that the caller runs on. */
unsigned slab_current_shard(void);

/* Takes about wanted blocks of a class (at least 1, at most a slab's worth); returns how many and
 * a list of them, or 0 when there is no memory. A single block may never have been touched: it is
 * not a list, its first word says nothing. Who passes is_zero wants a block of zeros: one that is
 * cut from fresh pages comes alone then, and untouched, and *is_zero becomes true. */
unsigned slab_acquire(unsigned shard, unsigned object_class, unsigned wanted, void **list,
                      bool *is_zero);

/* Whether a shard has free blocks of a class that were handed out before, of some recent moment. */
bool slab_has_free(unsigned shard, unsigned object_class);

/* Gives a list of blocks of one class back. The list ends with NULL, or in a circle where a block
 * was freed twice (double_free.h). Called with no lock held. */
void slab_release(unsigned object_class, void *list);

/* The same for one block that is all of its slab, and is not touched: nobody may ever have. False,
 * with nothing done, for the other classes. */
bool slab_release_single(unsigned object_class, void *block);

/* The same for one block, of any class. */
PRIM_INLINE void slab_release_block(unsigned object_class, void *block) {
    if (!slab_release_single(object_class, block)) {
        *(void **)block = NULL;
        slab_release(object_class, block);
    }
}

/* The same for what a list of so many blocks begins with, in a call that takes no more than the
 * effort; returns how many are left in *list. is_rest: the list was left by such a call, which has
 * seen to it that it ends with NULL. */
unsigned slab_release_some(unsigned object_class, void **list, unsigned count, int effort,
                           bool is_rest);
enum { SLAB_LITTLE_EFFORT = 48 }; /* so many runs of blocks, each of another slab */

/* Keeps a list of so many blocks as it is for the next who acquires from the shard, if there is
 * room for it. FULL: others took some of late, so there will be; IDLE: nobody wants it, or there is
 * no other thread (slab_transfer.h). */
enum slab_keeping { SLAB_IDLE, SLAB_FULL, SLAB_KEPT };
enum slab_keeping slab_keep(unsigned index, unsigned object_class, void *list, unsigned count);

/* Looks after what was given and not wanted since: some of it goes back to its slabs, in a short
 * call. To be called every so many slow events, and at each while slab_tick_is_due. */
void slab_tick(void);
extern PRIM_HIDDEN _Atomic bool slab_tick_is_due; /* (atomic: hint) */

/* Gives slabs that hold no block at all to the page heap. */
void slab_trim(void);

/* Gives wholly free pages of slabs that are in use back to the system: all of them, or those of
 * slabs that nobody touched since the last call. Returns how many bytes. Called with no lock held;
 * by several threads at once, if need be. */
size_t slab_purge(bool all);

/* The bytes in free blocks of slabs that slab_purge has not looked at since they were touched last:
 * what it could give back at most. Takes no lock. */
size_t slab_returnable_bytes(void);

/* The same for so many sets of slabs from this one on; *set is where to go on, 0 at the end. */
size_t slab_returnable_some(unsigned *set, unsigned most);

/* Slabs of one block are not among these: slab_single_count() tells of them. */
struct slab_totals {
    size_t slab_count;
    size_t slab_bytes;      /* in slabs */
    size_t free_bytes;      /* of them not handed out: free blocks, uncarved room and tails */
    size_t free_blocks;     /* those in pages asleep too */
    size_t asleep_bytes;    /* pages of slabs in use that were given back to the system */
    size_t used_blocks;     /* handed out to thread caches */
    size_t listed_blocks;   /* of them in lists that were given: between two threads' caches */
    size_t uncarved_bytes;  /* of free_bytes: no blocks yet, or too little for one */
    size_t untouched_bytes; /* of uncarved_bytes: pages that nobody ever touched */
};

/* Adds all classes, or one of them. */
void slab_totals_add(struct slab_totals *totals);
void slab_totals_add_class(struct slab_totals *totals, unsigned object_class);

/* Slabs of one block each that are handed out: 0 for the classes whose slabs hold several. */
size_t slab_single_count(unsigned object_class);

/* Slabs of a class in all shards. */
PRIM_INLINE size_t slab_count(unsigned object_class) {
    return load_relaxed(&span_levels[object_class].count);
}

/* Slabs of a class: most at a time, and how many there ever were. */
size_t slab_peak_count(unsigned object_class);
size_t slab_total_count(unsigned object_class);

void slab_fork_prepare(void);
void slab_fork_parent(void);
void slab_fork_child(void);

#endif
