#include "objects/hardened_bin.h"

#include <sched.h>

#include "objects/hardened_slab.h"
#include "objects/heap.h"
#include "os/memory.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { CLASS = 4, COUNT = 1000, TURNS = 100000 };

static struct hardened_cache *own;

static int setup(void **state) {
    (void)state;
    options.hardened = true;
    options.quarantine = 4096;
    options.zero_max = 64;
    own = hardened_bins_make(thread_cache_own());
    return own ? 0 : -1;
}

static void *take(unsigned object_class) {
    struct hardened_bin *bin = &own->bins[object_class];
    if (hardened_bin_is_empty(bin) && !hardened_bin_turn(own, object_class)) {
        assert_true(hardened_bin_refill(own, object_class));
    }
    void *block = hardened_bin_pop(bin);
    assert_non_null(block);
    return block;
}

static void give(unsigned object_class, void *block) {
    hardened_bin_push(block, object_class, &own->bins[object_class]);
}

/* A mark in each block that is out tells whether it is handed out twice. */
static void test_no_block_twice(void **state) {
    (void)state;
    static uint64_t *blocks[COUNT];
    struct random random = unit_random();
    for (unsigned object_class = CLASS_OF_16; object_class <= CLASS_COUNT; object_class += 5) {
        size_t count = bits_max((1 << 22) / size_classes[object_class].size, 4);
        for (unsigned turn = 0; turn < TURNS / 4; turn++) {
            uint64_t **slot = &blocks[random_below(&random, bits_min(count, COUNT))];
            if (*slot) {
                assert_int_equal(**slot, (uintptr_t)slot);
                **slot = 0;
                give(object_class, *slot);
                *slot = NULL;
            } else {
                *slot = take(object_class);
                assert_int_equal(**slot, 0);
                **slot = (uintptr_t)slot;
            }
        }
        for (unsigned i = 0; i < COUNT; i++) {
            if (blocks[i]) {
                *blocks[i] = 0;
                give(object_class, blocks[i]);
                blocks[i] = NULL;
            }
        }
    }
}

/* A block that is freed waits for others, and is any of them then. */
static void test_quarantine(void **state) {
    (void)state;
    unsigned waits[512] = {0};
    for (unsigned turn = 0; turn < TURNS / 10; turn++) {
        void *watched = take(CLASS);
        give(CLASS, watched);
        unsigned others = 0;
        for (void *block = take(CLASS); block != watched; block = take(CLASS)) {
            give(CLASS, block);
            others++;
        }
        give(CLASS, watched);
        waits[bits_min(others, ARRAY_LENGTH(waits) - 1)]++;
    }
    unsigned kinds = 0;
    for (unsigned i = 0; i < ARRAY_LENGTH(waits); i++) {
        kinds += waits[i] > 0;
        assert_true(waits[i] < TURNS / 10 / 8);
    }
    assert_true(kinds >= 32);
}

/* Blocks that one thread frees are another's, and none is lost. */
static void test_exchange(void **state) {
    (void)state;
    static void *blocks[100 * COUNT];
    size_t others = unit_slices_in_use();
    size_t before = 0;
    for (unsigned turn = 0; turn < 20; turn++) {
        for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
            blocks[i] = take(CLASS);
        }
        if (turn == 1) {
            before = unit_slices_in_use();
        }
        for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
            give(CLASS, blocks[i]);
        }
        if (turn % 3 == 0) {
            hardened_bin_flush(own, CLASS);
            assert_true(hardened_bin_is_empty(&own->bins[CLASS]));
        }
    }
    assert_true(unit_slices_in_use() <= before);
    hardened_bin_flush(own, CLASS);
    hardened_slab_trim();
    assert_true(before > others + 200);
    assert_true(unit_slices_in_use() < others + 20);
}

/* A thread that has only freed so far takes its first block from what it has freed. */
static void test_first_block_after_frees(void **state) {
    (void)state;
    static uint64_t *blocks[100 * COUNT];
    struct hardened_cache *other = own;
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        blocks[i] = take(CLASS);
        *blocks[i] = 0;
    }
    own = hardened_bins_make(thread_cache_own());
    assert_non_null(own);
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        give(CLASS, blocks[i]);
        bool takes = i % (COUNT / 2) == COUNT / 2 - 1;
        blocks[i] = takes ? take(CLASS) : NULL;
        if (takes) {
            assert_int_equal(*blocks[i], 0);
            *blocks[i] = i; /* no other has it */
        }
    }
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        if (blocks[i]) {
            assert_int_equal(*blocks[i], i);
            *blocks[i] = 0;
            give(CLASS, blocks[i]);
        }
    }
    hardened_bin_flush(own, CLASS);
    own = other;
    thread_cache_own()->hardened = own;
    hardened_bin_flush(own, CLASS);
    hardened_slab_trim();
}

enum { PROCESSORS = 64, EACH = 4 };

static size_t slices_more;

/* Takes some blocks on each processor that there is, and so from each shard. */
static void take_everywhere(unsigned number) {
    (void)number;
    void *blocks[PROCESSORS * EACH];
    unsigned taken = 0;
    cpu_set_t one;
    assert_non_null(thread_cache_own());
    size_t before = unit_slices_in_use();
    for (int processor = 0; processor < PROCESSORS; processor++) {
        CPU_ZERO(&one);
        CPU_SET(processor, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0) {
            taken += hardened_slab_take(CLASS, blocks + taken, EACH, &own->random);
        }
    }
    slices_more = unit_slices_in_use() - before;
    hardened_slab_give(blocks, taken);
}

/* While a slab has free blocks no shard makes another one. */
static void test_shards(void **state) {
    (void)state;
    static void *blocks[COUNT];
    unsigned taken = 0;
    while (taken < COUNT) {
        taken += hardened_slab_take(CLASS, blocks + taken, COUNT - taken, &own->random);
    }
    hardened_slab_give(blocks, COUNT / 2);
    unit_run_threads(1, take_everywhere);
    assert_int_equal(slices_more, 0);
    hardened_slab_give(blocks + COUNT / 2, COUNT / 2);
}

static unsigned guards_in(size_t bytes, unsigned object_class) {
    const struct hardened_slab *last = NULL;
    unsigned guards = 0;
    for (size_t taken = 0; taken < bytes; taken += size_classes[object_class].size) {
        void *block;
        assert_int_equal(hardened_slab_take(object_class, &block, 1, &own->random), 1);
        const struct hardened_slab *slab = hardened_slab_of(block);
        guards += slab != last && slab->has_guard;
        last = slab;
    }
    return guards;
}

/* In a large heap, 8 MiB of slabs have about one guard: neither none nor one slab in eight. Where a
 * slice is less than a page there are none. */
static void test_guards(void **state) {
    (void)state;
    enum { SIZE = 32 << 10, LARGE = 128 << 20 };
    unsigned guards = guards_in(LARGE, size_class_of(SIZE));
    if (memory_page_size() > SLICE_SIZE) {
        assert_int_equal(guards, 0);
    } else {
        assert_in_range(guards, 3, 48);
    }
}

int main(void) {
    heap_ensure();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_block_twice), cmocka_unit_test(test_quarantine),
        cmocka_unit_test(test_exchange),       cmocka_unit_test(test_first_block_after_frees),
        cmocka_unit_test(test_shards),         cmocka_unit_test(test_guards),
    };
    return cmocka_run_group_tests_name("hardened_bin", tests, setup, NULL);
}
