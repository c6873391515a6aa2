/* hardened_slab.h - slabs for options.hardened: all that is known of a block lies elsewhere.
 *
 * No list runs through free blocks, and nothing lies beside them. A byte for each 16 bytes of
 * address space, in memory of the library's own, holds the class of the live block that begins
 * there, and 0 everywhere else: what a free asks first. A slab's descriptor has a bit for each
 * block that may be taken. Blocks are taken by a throw among all that are free in the pages opened
 * so far; where in its span a slab begins is a throw, too. Some slabs, by a throw, end with a slice
 * that nobody may touch. An emptied slab is kept with its guard, as long as these are few.
 *
 * A span of such a slab has HARDENED_BUCKET, and its descriptor in place of the list of free
 * blocks. Slabs made before the options were read stay what they are.
 *
 * Locks: HARDENED, one for each class and shard, under which no other is taken. The byte of a block
 * belongs to whoever holds the block: the program, a thread's cache, the slab. */
#ifndef PRIM_OBJECTS_HARDENED_SLAB_H
#define PRIM_OBJECTS_HARDENED_SLAB_H

#include "objects/size_class.h"
#include "os/lock.h"
#include "pages/span.h"

enum { HARDENED_BUCKET = 255, HARDENED_UNIT = 16 };

struct hardened_slab {
    struct hardened_slab *next;     /* (lock: HARDENED) slabs with free blocks, or descriptors */
    struct hardened_slab *previous; /* (lock: HARDENED) */
    struct hardened_set *set;       /* (const while in use) whose lock guards it */
    struct span *span;              /* (const while in use) */
    uintptr_t start;                /* (const while in use) of the first block */
    uint64_t reciprocal;            /* (const) of the block size, for 40 bits */
    uint32_t size;                  /* (const) of a block */
    uint32_t count;                 /* (const while in use) blocks that fit */
    uint32_t open_count;            /* (lock: HARDENED) blocks that may be taken */
    uint32_t free_count;            /* (lock: HARDENED) of these, free */
    bool has_guard;                 /* (const while in use) its last slice is forbidden */
    uint64_t free[];                /* (lock: HARDENED) one bit a block */
};

struct hardened_set {
    struct lock lock;
    _Atomic bool has_full;         /* (atomic: hint, written under the lock) */
    struct hardened_slab *partial; /* (lock: HARDENED) slabs with free blocks */
    struct hardened_slab *empty;   /* (lock: HARDENED) kept slabs without used blocks */
    struct hardened_slab *unused;  /* (lock: HARDENED) descriptors without a slab */
    struct magazine *full;         /* (lock: HARDENED) with blocks: hardened_depot.h */
    struct magazine *spent;        /* (lock: HARDENED) without */
    _Atomic size_t bytes;          /* (atomic: hint, written under the lock) of all its slabs */
    size_t kept_bytes;             /* (lock: HARDENED) of kept slabs and blocks in magazines */
};

/* One for each 256 MiB of address space that have such slabs: span_table. */
struct hardened_states {
    _Atomic uint8_t classes[((size_t)1 << CHUNK_SHIFT) / HARDENED_UNIT]; /* (atomic: state) */
};

/* The byte of the block that begins at any address; NULL where none may. An address turned by four
 * bits tells all at once: one that is no multiple of HARDENED_UNIT is too great. */
PRIM_INLINE _Atomic uint8_t *hardened_state_of(const void *pointer) {
    enum { SHIFT = 4, UNIT_BITS = CHUNK_SHIFT - SHIFT };
    uintptr_t turned = (uintptr_t)pointer >> SHIFT | (uintptr_t)pointer << (64 - SHIFT);
    if (PRIM_UNLIKELY(turned >> UNIT_BITS >= span_chunk_count)) {
        return NULL;
    }
    struct hardened_states *states =
        load_acquire(&span_table->states[turned >> UNIT_BITS]); /* order pair: hardened states */
    return PRIM_LIKELY(states != NULL) ? &states->classes[turned % ((uintptr_t)1 << UNIT_BITS)]
                                       : NULL;
}

/* The same of a block of such a slab. */
PRIM_INLINE _Atomic uint8_t *hardened_state_here(const void *block) {
    struct hardened_states *states =
        load_relaxed(&span_table->states[(uintptr_t)block >> CHUNK_SHIFT]);
    uintptr_t offset = (uintptr_t)block % ((uintptr_t)1 << CHUNK_SHIFT);
    return &states->classes[offset / HARDENED_UNIT];
}

/* The descriptor of a block's slab; NULL if it is another kind of slab. */
PRIM_INLINE struct hardened_slab *hardened_slab_of(const void *block) {
    struct span *span = span_of_block(block);
    return PRIM_LIKELY(span->bucket == HARDENED_BUCKET) ? span->free_blocks : NULL;
}

/* Which of the slab's blocks begins at this address or before it. */
PRIM_INLINE uint32_t hardened_slab_index(const struct hardened_slab *slab, const void *block) {
    return (uint32_t)(((uintptr_t)block - slab->start) * slab->reciprocal >> 40);
}

/* The generator's next state; its upper bits are thrown dice. */
PRIM_INLINE uint64_t hardened_next(uint64_t random) {
    return random * 6364136223846793005u + 1;
}

/* A number below the limit. */
PRIM_INLINE uint32_t hardened_throw(uint64_t *random, uint32_t limit) {
    uint64_t now = *random >> 32;
    *random = hardened_next(*random);
    return (uint32_t)(now * limit >> 32);
}

/* The set that the calling thread takes blocks from. */
struct hardened_set *hardened_set_here(unsigned object_class);

/* With the lock held: whether so much more may be kept. */
bool hardened_set_may_keep(const struct hardened_set *set, size_t bytes);

/* Takes up to wanted blocks, all zero as far as options.zero_max; returns how many, 0 without
 * memory. */
unsigned hardened_slab_take(unsigned object_class, void **blocks, unsigned wanted,
                            uint64_t *random);

/* Gives blocks back. */
void hardened_slab_give(void *const *blocks, unsigned count);

/* Gives what was kept for later to the page heap. */
void hardened_slab_trim(void);

void hardened_slab_fork_prepare(void);
void hardened_slab_fork_parent(void);
void hardened_slab_fork_child(void);

#endif
