/* bin.h - one bin of a thread cache: head, spare and capacity; for bin.c and thread_*.c only.
 *
 * All of it belongs to the cache's owner. */
#ifndef PRIM_OBJECTS_BIN_H
#define PRIM_OBJECTS_BIN_H

#include "objects/slab.h"
#include "objects/thread_cache.h"

PRIM_INLINE struct bin *medium_bin(struct thread_cache *cache, unsigned object_class) {
    return &cache->rest->bins[object_class - MEDIUM_CLASS_FIRST];
}

PRIM_INLINE struct bin *bin_of(struct thread_cache *cache, unsigned object_class) {
    return object_class <= SMALL_CLASS_LAST ? &cache->bins[object_class]
                                            : medium_bin(cache, object_class);
}

PRIM_INLINE void bin_mark(uint64_t *bits, unsigned index) {
    bits[index / 64] |= (uint64_t)1 << (index % 64);
}

PRIM_INLINE void bin_unmark(uint64_t *bits, unsigned index) {
    bits[index / 64] &= ~((uint64_t)1 << (index % 64));
}

PRIM_INLINE bool bin_is_marked(const uint64_t *bits, unsigned index) {
    return bits[index / 64] >> (index % 64) & 1;
}

/* A bin of so few blocks has no spare but what a collection sets aside: its head may be twice as
 * long, and once it is full its older half is given away, or more among several threads. To cut
 * so short a list costs less than the slow calls that exchange two. */
enum { FEW_BLOCKS = 16 };

PRIM_INLINE bool bin_is_short(const volatile struct bin *bin) {
    return bin->capacity <= FEW_BLOCKS;
}

/* Blocks that the head may hold. */
PRIM_INLINE int32_t bin_head_most(const volatile struct bin *bin) {
    return bin_is_short(bin) ? 2 * bin->capacity : bin->capacity;
}

PRIM_INLINE unsigned bin_head_length(struct thread_cache *cache, unsigned object_class) {
    return (unsigned)(bin_head_most(bin_of(cache, object_class)) - cache->room[object_class]);
}

void bin_set_capacity(struct thread_cache *cache, unsigned object_class, unsigned capacity);

/* Takes the spare; makes the head the spare, where there is none. */
void *bin_take_spare(struct thread_cache *cache, unsigned object_class);
void bin_head_to_spare(struct thread_cache *cache, unsigned object_class);

/* The same for a collection. A thread that is alone keeps half of a short bin: the fewer blocks are
 * aside, the fewer pages they hold when it goes to sleep. Among several the way to that half, along
 * blocks that are cold, is what takes malloc longest, and others can use all of them. */
void bin_set_aside(struct thread_cache *cache, unsigned object_class);

/* Gives the spare away: all of it, if it is kept for who needs it next; else some. */
enum slab_keeping bin_give_spare(struct thread_cache *cache, unsigned object_class);

/* Makes room for a block in a full bin, which may take as many calls as the spare is scattered. */
void bin_make_room(struct thread_cache *cache, unsigned object_class, const void *block);

/* Gives away a block that a bin without capacity has no room for. */
void bin_give_block(struct thread_cache *cache, unsigned object_class, void *block);

unsigned bin_capacity_start(struct thread_cache *cache, unsigned object_class);

/* Gives a bin its first capacity, or twice what it has, as far as limit and budget allow. */
void bin_grow(struct thread_cache *cache, unsigned object_class);

PRIM_INLINE void bin_begin_use(struct thread_cache *cache, unsigned object_class) {
    if (!bin_is_marked(cache->in_use, object_class)) {
        bin_mark(cache->in_use, object_class);
        bin_grow(cache, object_class);
    }
}

/* The spare, or blocks from the slabs if there is none; returns how many, 0 without memory. Where
 * zeros are wanted, is_zero is as in slab_acquire. */
unsigned bin_take_list(struct thread_cache *cache, unsigned object_class, void **list,
                       bool *is_zero);

/* Where a medium class would need new pages: a block of one of the next greater classes that the
 * thread has at hand, or NULL. A few only between two collections: what a program goes on asking
 * for gets blocks of its own, which need no slow door. */
void *bin_borrow(struct thread_cache *cache, unsigned object_class, size_t alignment);

/* Gives head and spare away. */
void bin_flush(struct thread_cache *cache, unsigned object_class);

#endif
