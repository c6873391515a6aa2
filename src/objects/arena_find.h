/* arena_find.h - which block of which arena a pointer is. */
#ifndef PRIM_OBJECTS_ARENA_FIND_H
#define PRIM_OBJECTS_ARENA_FIND_H

#include "objects/arena.h"

struct arena_found {
    struct arena *arena; /* NULL: the pointer is no live block */
    struct arena_chunk *chunk;
    size_t granule;
    struct span *span; /* of a large block: there is no chunk */
    size_t usable;     /* bytes from the pointer on */
};

/* For any pointer into slices with CLASS_ARENA. Without a lock: nobody changes the byte of a block
 * that the caller holds. */
struct arena_found arena_find(const void *block);

/* The pointer to the live block that the address lies in, if there is one: within slices with
 * CLASS_ARENA, and of a large block in the first one. Else any. */
const void *arena_block_around(const void *address);

/* Whether no block of ours begins in the range, and nothing of it is lent already. */
bool arena_is_foreign(uintptr_t start, uintptr_t end);

PRIM_INLINE size_t arena_large_size(const struct span *span) {
    return span_size(span) - span->block_offset;
}

#endif
