/* Blocks that a test takes from slabs, with contents by which mistakes are found. */
#ifndef TESTS_UNIT_SLAB_HOLDER_H
#define TESTS_UNIT_SLAB_HOLDER_H

#include "objects/size_class.h"
#include "objects/slab.h"
#include "os/memory.h"
#include "pages/span.h"
#include "unit/unit.h"

enum { HELD_MAX = 32768 };

/* Blocks that a test holds: filled with a pattern of their address, so that a block handed out
 * twice is found with the pattern, and one whose page was taken away without it. */
struct holder {
    void *blocks[HELD_MAX];
    size_t count;
    unsigned object_class;
};

/* For tests that know which blocks lie in a page of 4 KiB. */
static inline void need_small_pages(void) {
    if (memory_page_size() != 4096) {
        skip();
    }
}

static inline size_t size_of(unsigned object_class) {
    return size_classes[object_class].size;
}

static inline struct slab_totals totals(void) {
    struct slab_totals sum = {0};
    slab_totals_add(&sum);
    return sum;
}

static inline uint64_t tag_of(const void *block) {
    return (uintptr_t)block;
}

static inline void check_contents(const struct holder *holder) {
    size_t size = size_of(holder->object_class);
    for (size_t i = 0; i < holder->count; i++) {
        size_t offset = check_pattern(holder->blocks[i], size, tag_of(holder->blocks[i]));
        CHECK(offset == size, "class %u: a block in use lost byte %zu", holder->object_class,
              offset);
    }
}

static inline unsigned hold(struct holder *holder, unsigned shard, unsigned wanted) {
    size_t size = size_of(holder->object_class);
    void *list = NULL;
    unsigned count = slab_acquire(shard, holder->object_class, wanted, &list, NULL);
    if (count == 1) {
        *(void **)list = NULL;
    }
    CHECK(count >= 1, "no memory for class %u", holder->object_class);
    for (unsigned i = 0; i < count; i++) {
        CHECK(list && holder->count < HELD_MAX, "the list of %u blocks ends at %u", count, i);
        uint64_t *block = list;
        uint64_t pattern[2];
        list = *(void **)list;
        fill_pattern(pattern, sizeof pattern, tag_of(block));
        CHECK(block[1] != pattern[1], "class %u: a block was handed out twice",
              holder->object_class);
        CHECK(span_class_of(block) == holder->object_class &&
                  ((uintptr_t)block - span_of_block(block)->address) % size == 0,
              "class %u: no block of it", holder->object_class);
        fill_pattern(block, size, tag_of(block));
        holder->blocks[holder->count++] = block;
    }
    CHECK(!list, "a list is longer than %u", count);
    return count;
}

static inline void hold_all(struct holder *holder, unsigned shard, size_t count) {
    while (holder->count < count) {
        hold(holder, shard, 32);
    }
}

/* Takes the block at this place out of the holder and puts it on *list. */
static inline void drop(struct holder *holder, size_t place, void **list) {
    uint64_t *block = holder->blocks[place];
    size_t size = size_of(holder->object_class);
    CHECK(check_pattern(block, size, tag_of(block)) == size, "a block in use lost its contents");
    holder->blocks[place] = holder->blocks[--holder->count];
    block[1] = 0;
    *(void **)block = *list;
    *list = block;
}

/* Gives back all blocks but about each one in `one_in`, chosen at random. */
static inline void drop_most(struct holder *holder, struct random *random, unsigned one_in) {
    void *list = NULL;
    for (size_t i = holder->count; i-- > 0;) {
        if (one_in == 0 || random_below(random, one_in) != 0) {
            drop(holder, i, &list);
        }
    }
    slab_release(holder->object_class, list);
}

static inline void drop_all(struct holder *holder) {
    drop_most(holder, NULL, 0);
}

static inline void check_nothing_left(void) {
    slab_trim();
    struct slab_totals left = totals();
    CHECK(left.slab_bytes == 0 && left.free_bytes == 0 && left.free_blocks == 0 &&
              left.asleep_bytes == 0,
          "%zu bytes of slabs, %zu of them free, %zu asleep, %zu blocks", left.slab_bytes,
          left.free_bytes, left.asleep_bytes, left.free_blocks);
    CHECK(slab_returnable_bytes() == 0, "%zu bytes are returnable", slab_returnable_bytes());
    CHECK(unit_slices_in_use() == 0, "%zu slices in use", unit_slices_in_use());
}

#endif
