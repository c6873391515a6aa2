/* hardened_slab.h - slabs for options.hardened: all that is known of a block lies elsewhere.
 *
 * No list runs through free blocks. A slab's descriptor, in memory of the library's own, has a byte
 * for each block: FREE, HELD (in a thread's cache or quarantine) or LIVE. Blocks are taken by a
 * throw among all that are free in the pages opened so far; where in its span a slab begins is a
 * throw, too. Every fourth slab or so ends with a slice that nobody may touch.
 *
 * A span of such a slab has HARDENED_BUCKET, and its descriptor in place of the list of free
 * blocks. Slabs made before the options were read stay what they are. Classes whose slabs are one
 * block have none: their spans already are all that is known of them.
 *
 * Locks: HARDENED, one for each class, under which others are taken only to free a slab's span. */
#ifndef PRIM_OBJECTS_HARDENED_SLAB_H
#define PRIM_OBJECTS_HARDENED_SLAB_H

#include "objects/size_class.h"
#include "pages/span.h"

enum { HARDENED_BUCKET = 255 };

enum hardened_state { HARDENED_FREE, HARDENED_HELD, HARDENED_LIVE };

struct hardened_slab {
    struct hardened_slab *next;     /* (lock: HARDENED) slabs with free blocks, or descriptors */
    struct hardened_slab *previous; /* (lock: HARDENED) */
    struct span *span;              /* (const while in use) */
    uintptr_t start;                /* (const while in use) of the first block */
    uint64_t reciprocal;            /* (const) of the block size, for 40 bits */
    uint32_t size;                  /* (const) of a block */
    uint32_t count;                 /* (const while in use) blocks that fit */
    uint32_t open_count;            /* (lock: HARDENED) blocks that may be taken */
    uint32_t free_count;            /* (lock: HARDENED) of these, FREE */
    bool has_guard;                 /* (const while in use) its last slice is forbidden */
    _Atomic uint8_t states[];       /* (atomic: state) enum hardened_state */
};

/* A block with the byte that tells its state. */
struct hardened_block {
    void *address;
    _Atomic uint8_t *state;
};

/* The descriptor of a block's slab; NULL if it is another kind of slab. */
PRIM_INLINE struct hardened_slab *hardened_slab_of(const void *block) {
    struct span *span = span_of_block(block);
    return PRIM_LIKELY(span->bucket == HARDENED_BUCKET) ? span->free_blocks : NULL;
}

/* The byte of the block that begins at this address; NULL if none does. */
PRIM_INLINE _Atomic uint8_t *hardened_slab_state(struct hardened_slab *slab, const void *block) {
    uint64_t offset = (uintptr_t)block - slab->start;
    uint64_t index = offset * slab->reciprocal >> 40;
    bool is_block = (uintptr_t)block >= slab->start && index * slab->size == offset;
    return PRIM_LIKELY(is_block && index < slab->count) ? &slab->states[index] : NULL;
}

PRIM_INLINE bool hardened_slab_serves(unsigned object_class) {
    return size_classes[object_class].capacity > 1;
}

/* Takes up to wanted blocks, which become HELD; returns how many, 0 without memory. */
unsigned hardened_slab_take(unsigned object_class, struct hardened_block *blocks, unsigned wanted,
                            uint64_t *random);

/* Gives blocks of one class back, which become FREE. */
void hardened_slab_give(unsigned object_class, const struct hardened_block *blocks, unsigned count);

void hardened_slab_fork_prepare(void);
void hardened_slab_fork_parent(void);
void hardened_slab_fork_child(void);

#endif
