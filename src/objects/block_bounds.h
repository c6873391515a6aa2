/* block_bounds.h - which place for a block a pointer leads into.
 *
 * For those who look into a pointer that may be wrong. A place is where the allocator would put a
 * block, or has put one: a slab's block, free or not, or a large block. */
#ifndef PRIM_OBJECTS_BLOCK_BOUNDS_H
#define PRIM_OBJECTS_BLOCK_BOUNDS_H

#include "base/compiler.h"

struct block_bounds {
    uintptr_t start;
    size_t size;
    unsigned object_class; /* 0: the pointer leads to no place, and the others are 0 as well */
};

/* Of any pointer; in slices of arenas, or of blocks placed by somebody, start and size are 0. */
struct block_bounds block_bounds_of(const void *pointer);

#endif
