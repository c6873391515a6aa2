/* hardened_bin.h - the free blocks that a thread of a hardened heap keeps, apart from the blocks.
 *
 * For each class there are two arrays (magazines): malloc takes from one, free puts into the other,
 * so that neither waits for what the other did. When the first is empty, the other one takes its
 * place, in another order, if enough blocks have been freed: so long each waits at least. A third
 * one, full or empty, keeps a thread that allocates and frees by turns from the depot
 * (hardened_depot.h).
 *
 * All of it belongs to the thread. */
#ifndef PRIM_OBJECTS_HARDENED_BIN_H
#define PRIM_OBJECTS_HARDENED_BIN_H

#include "objects/hardened_depot.h"
#include "objects/thread_cache.h"

/* One cache line. */
struct hardened_bin {
    void **top;             /* (owner) where the block lies that goes out next */
    void **bottom;          /* (owner) the place before the first; the same: none is ready */
    void **freed_top;       /* (owner) where the block lies that was freed last */
    void **freed_last;      /* (owner) the last place that there is for one */
    uint8_t clear_last;     /* (owner) where the last HARDENED_UNIT lies that free makes zero ... */
    uint8_t clear_step;     /* (owner) ... and how far from the ends the two between them are */
    uint16_t waiting_min;   /* (owner) freed blocks that may go out again */
    uint16_t refill_count;  /* (owner) blocks that the slabs are asked for */
    struct magazine *ready; /* (owner) what top points into, or NULL */
    struct magazine *freed; /* (owner) what freed_top points into, or NULL */
    struct magazine *spare; /* (owner) a full one, an empty one, or NULL */
};

enum { CLEAR_OTHERWISE = 255 }; /* clear_last: nothing is made zero, or more than four units */

struct hardened_cache {
    struct hardened_bin bins[CLASS_COUNT + 1];
    uint64_t random; /* (owner) state of the generator */

    /* (owner, const) What lies in the place before an array's first: looks like a block that was
     * written to, so who looks at the block that goes out next sees that there is none. */
    uint64_t no_block[2];
    void *no_blocks; /* (owner, const) an array of none */
};

/* Makes the cache's arrays, which stay with it, whoever's it will be; NULL without memory. */
struct hardened_cache *hardened_bins_make(struct thread_cache *cache);

/* From here on the arrays choose by other random numbers. */
void hardened_bins_seed(struct hardened_cache *own);

/* An empty bin gets what the thread has freed, if that is enough. */
bool hardened_bin_turn(struct hardened_cache *own, unsigned object_class);

/* It gets what others have freed, or blocks from the slabs; false without memory. */
bool hardened_bin_refill(struct hardened_cache *own, unsigned object_class);

/* There was no place left for a freed block: there is in another array, or it goes to its slab. */
void hardened_bin_overflow(void *block, unsigned object_class, struct hardened_bin *bin);

/* All blocks go to the depot or the slabs. */
void hardened_bin_flush(struct hardened_cache *own, unsigned object_class);

PRIM_INLINE bool hardened_bin_is_empty(const struct hardened_bin *bin) {
    return bin->top == bin->bottom;
}

/* Where there is one. */
PRIM_INLINE void *hardened_bin_pop(struct hardened_bin *bin) {
    void **top = bin->top;
    bin->top = top - 1;
    __builtin_prefetch(top[-1], 1); /* the next one is on its way from memory until then */
    return *top;
}

PRIM_INLINE void hardened_bin_push(void *block, unsigned object_class, struct hardened_bin *bin) {
    void **top = bin->freed_top;
    if (PRIM_UNLIKELY(top == bin->freed_last)) {
        hardened_bin_overflow(block, object_class, bin);
        return;
    }
    top[1] = block;
    bin->freed_top = top + 1;
}

#endif
