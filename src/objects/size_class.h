/* size_class.h - block sizes and the slabs they are cut from; the table is size_classes.def.
 *
 * Classes 1..CLASS_COUNT are sizes of at most SPARSE_SIZE_MAX bytes. Class 0 means "not a block";
 * CLASS_LARGE marks blocks that are spans of their own, CLASS_ARENA those of arenas, CLASS_PLACED
 * those that a sampler's user placed. Sizes of at most SMALL_SIZE_MAX find their class in a table
 * of bytes, greater ones by arithmetic: eight classes a doubling up to EIGHTHS_SIZE_MAX, and then
 * whole slices, each block a slab of its own. Those above MEDIUM_SIZE_MAX, four a doubling, are
 * used while blocks stay untouched inside (sparse.h); else such blocks are CLASS_LARGE. */
#ifndef PRIM_OBJECTS_SIZE_CLASS_H
#define PRIM_OBJECTS_SIZE_CLASS_H

#include "base/bits.h"
#include "pages/address_map.h"

enum {
#define SIZE_CLASS(index, size, slices, capacity) CLASS_COUNT_##index,
#include "objects/size_classes.def"
#undef SIZE_CLASS
    CLASS_COUNT,
    CLASS_LARGE = CLASS_COUNT + 1,
    CLASS_ARENA,
    CLASS_PLACED,
    BIN_COUNT, /* bins of a thread cache: class 0, the classes, CLASS_LARGE and what follows */
};

enum {
    CLASS_OF_8 = 1,
    CLASS_OF_16 = 2,
    SMALL_SIZE_MAX = 1024,
    EIGHTHS_SIZE_MAX = 32 * 1024,
    MEDIUM_SIZE_MAX = 256 * 1024,
    SPARSE_SIZE_MAX = 1024 * 1024,
    SMALL_TABLE_SIZE = SMALL_SIZE_MAX + 1,
    SMALL_CLASS_LAST = 33,   /* the class of SMALL_SIZE_MAX */
    EIGHTHS_CLASS_LAST = 73, /* that of EIGHTHS_SIZE_MAX */
    MEDIUM_CLASS_LAST = 87,  /* that of MEDIUM_SIZE_MAX */
};

struct size_class {
    uint32_t size;     /* of a block, in bytes */
    uint16_t capacity; /* blocks in a slab */
    uint16_t slices;   /* slices of a slab */
};

extern PRIM_HIDDEN const struct size_class size_classes[CLASS_COUNT + 1];

/* The class of a size above 128 and at most MEDIUM_SIZE_MAX bytes. */
PRIM_INLINE unsigned size_class_by_arithmetic(size_t size) {
    if (size > EIGHTHS_SIZE_MAX) {
        return (unsigned)((size - 1) / SLICE_SIZE) + 72; /* 74 for 32,769..49,152 */
    }
    unsigned doubling = bits_highest(size - 1);                  /* 7 for 129..256 */
    unsigned eighths = (unsigned)((size - 1) >> (doubling - 3)); /* 8..15 of it */
    return doubling * 8 + eighths - 54;                          /* 10 for 129..144 */
}

/* The class of a size above MEDIUM_SIZE_MAX and at most SPARSE_SIZE_MAX bytes. */
PRIM_INLINE unsigned size_class_sparse(size_t size) {
    unsigned doubling = bits_highest(size - 1);                   /* 18 up to 512 KiB, else 19 */
    unsigned quarters = (unsigned)((size - 1) >> (doubling - 2)); /* 4..7 of it */
    return doubling * 4 + quarters + 12;                          /* 88 for up to 320 KiB */
}

/* The class of any size of at most MEDIUM_SIZE_MAX bytes, of the least size that holds it. */
unsigned size_class_of(size_t size);

#endif
