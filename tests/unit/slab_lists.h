/* What the tests of slabs share: lists of blocks, and whether all came back. */
#ifndef TESTS_UNIT_SLAB_LISTS_H
#define TESTS_UNIT_SLAB_LISTS_H

#include "objects/size_class.h"
#include "objects/slab.h"
#include "pages/span.h"
#include "unit/unit.h"

static inline struct slab_totals totals(void) {
    struct slab_totals sum = {0};
    slab_totals_add(&sum);
    return sum;
}

static inline unsigned length(const void *list) {
    unsigned count = 0;
    for (; list; list = *(void *const *)list) {
        count++;
    }
    return count;
}

static inline void *acquire(unsigned shard, unsigned object_class, unsigned wanted) {
    void *list = NULL;
    unsigned count = slab_acquire(shard, object_class, wanted, &list, NULL);
    if (count == 1) {
        *(void **)list = NULL;
    }
    CHECK(count >= 1, "no memory for class %u", object_class);
    CHECK(count <= size_classes[object_class].capacity, "%u blocks of class %u", count,
          object_class);
    CHECK(length(list) == count, "%u blocks in a list said to hold %u", length(list), count);
    return list;
}

static inline void check_nothing_left(void) {
    slab_trim();
    struct slab_totals left = totals();
    CHECK(left.slab_bytes == 0 && left.free_bytes == 0 && left.free_blocks == 0,
          "%zu bytes of slabs, %zu of them free, %zu blocks", left.slab_bytes, left.free_bytes,
          left.free_blocks);
    CHECK(unit_slices_in_use() == 0, "%zu slices in use", unit_slices_in_use());
}

/* A list with a block of each of so many full slabs; returns the others of these. */
static inline void *fill_slabs(unsigned object_class, unsigned slabs, void **list) {
    void *others = NULL;
    for (unsigned i = 0; i < slabs;) {
        void **block = acquire(0, object_class, 1);
        assert_int_equal(length(block), 1);
        bool is_last = span_of_block(block)->used_count == size_classes[object_class].capacity;
        i += is_last;
        void **where = is_last ? list : &others;
        *block = *where;
        *where = block;
    }
    return others;
}

#endif
