#include "objects/thread_cache.h"

#include <sched.h>

#include "objects/allocate.h"
#include "objects/bin.h"
#include "objects/call_counts.h"
#include "objects/heap.h"
#include "objects/slab.h"
#include "os/memory.h"
#include "pages/limits.h"
#include "pages/span.h"
#include "pages/sparse.h"
#include "settings/options.h"
#include "unit/thread_cache_check.h"
#include "unit/unit.h"

enum { THREADS = 4 };

static bool is_empty(struct thread_cache *cache) {
    for (unsigned i = 1; i <= CLASS_COUNT; i++) {
        const struct bin *bin = bin_of(cache, i);
        if (cache->head[i] || bin->spare || cache->room[i] || bin->capacity) {
            return false;
        }
    }
    return cache->capacity_bytes == 0;
}

static size_t held_bytes(struct thread_cache *cache) {
    size_t bytes = 0;
    for (unsigned i = 1; i <= CLASS_COUNT; i++) {
        bytes +=
            (size_t)(length(cache->head[i]) + bin_of(cache, i)->spare_count) * size_classes[i].size;
    }
    return bytes;
}

static struct slab_totals slabs(void) {
    struct slab_totals sum = {0};
    slab_trim();
    slab_totals_add(&sum);
    return sum;
}

static void release_many(size_t count) {
    for (size_t i = 0; i < count; i++) {
        release(blocks[i]);
    }
}

static void test_own(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    assert_ptr_equal(thread_cache_own(), cache);
    assert_ptr_equal(thread_cache_visible, cache);
    assert_true(is_empty(cache));
    for (size_t size = 0; size <= SMALL_SIZE_MAX; size++) {
        assert_true(size_table_bin(size) >= size_class_of(size));
        assert_true(size_classes[size_table_bin(size)].size <= bits_max(16, 2 * size));
    }
}

static void test_refill_and_overflow(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        void *block = thread_cache_refill(cache, object_class, 0, NULL);
        assert_non_null(block);
        assert_int_equal(span_class_of(block), object_class);
        check_cache(cache);
        thread_cache_overflow(cache, object_class, block);
        check_cache(cache);
    }
    thread_cache_flush(cache);
    assert_true(is_empty(cache));
    assert_int_equal(slabs().slab_bytes, 0);
}

static void test_random_operations(void **state) {
    (void)state;
    struct random random = unit_random();
    struct thread_cache *cache = fresh_cache();
    memset(blocks, 0, sizeof blocks);
    for (size_t i = 0; i < scaled(60000); i++) {
        size_t index = random_below(&random, BLOCKS);
        if (blocks[index]) {
            release(blocks[index]);
            blocks[index] = NULL;
        } else {
            size_t limit = random_below(&random, 20) ? SMALL_SIZE_MAX : MEDIUM_SIZE_MAX;
            blocks[index] = allocate(random_below(&random, limit) + 1);
            CHECK(blocks[index] != NULL, "no memory");
        }
        if (i % 64 == 0) {
            check_cache(cache);
        }
    }
    release_many(BLOCKS);
    check_cache(cache);
    thread_cache_flush(cache);
    assert_true(is_empty(cache));
    assert_int_equal(slabs().slab_bytes, 0);
}

/* Capacities stay within what the option says; a bin has two lists of so many blocks at most. */
static void test_budget(void **state) {
    (void)state;
    static const size_t sizes[] = {16, 48, 64, 100, 256, 512, 1000, 2000, 4000};
    struct thread_cache *cache = fresh_cache();
    options.cache_thread = 64 * 1024;
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
            allocate_many(BLOCKS, sizes[i]);
            release_many(BLOCKS);
            check_cache(cache);
            CHECK(cache->capacity_bytes <= options.cache_thread, "%zu bytes of %zu",
                  cache->capacity_bytes, (size_t)options.cache_thread);
            CHECK(held_bytes(cache) <= 2 * options.cache_thread, "%zu bytes are held of %zu",
                  held_bytes(cache), (size_t)options.cache_thread);
        }
    }
    thread_cache_flush(cache);
}

static void test_budget_over_all_classes(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        allocate_many(100, size_classes[object_class].size);
        release_many(100);
    }
    check_cache(cache);
    assert_true(cache->capacity_bytes <= options.cache_thread);
    thread_cache_flush(cache);
}

/* Where blocks stay untouched inside, a cache holds six of each size, and six times as much. */
static void test_sparse_blocks(void **state) {
    (void)state;
    enum { FIRST = 74, MOST = 6 }; /* of whole slices */
    struct thread_cache *cache = fresh_cache();
    for (unsigned object_class = FIRST; object_class <= CLASS_COUNT; object_class++) {
        bool has_ended = false; /* by a look at a span: what the bin gets in that call is chance */
        store_relaxed(&sparse_is_on, true);
        for (size_t count = 1; count <= 3 * MOST; count++) {
            allocate_many(count, size_classes[object_class].size);
            for (size_t i = 0; i < count; i++) {
                release(blocks[i]);
                has_ended |= !load_relaxed(&sparse_is_on);
                store_relaxed(&sparse_is_on, true);
            }
        }
        assert_true(bin_of(cache, object_class)->capacity <= MOST || has_ended);
    }
    assert_in_range(cache->capacity_bytes, options.cache_thread, options.cache_thread / 2 * MOST);
    store_relaxed(&sparse_is_on, false);
    thread_cache_flush(cache);
}

static void test_total_is_divided(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    options.cache_total = 65536; /* for all threads together, and here is one */
    for (size_t size = 16; size <= 2048; size *= 2) {
        allocate_many(BLOCKS, size);
        release_many(BLOCKS);
    }
    assert_true(cache->capacity_bytes <= options.cache_total);
    thread_cache_flush(cache);
}

/* Greater blocks that are only freed are not kept; those that are taken again are. */
static void test_blocks_only_freed_are_not_kept(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    slab_trim(); /* idle lists would have calls do other work */
    for (size_t size = 8192; size <= 262144; size *= 2) {
        unsigned object_class = size_class_of(size);
        allocate_many(200, size);
        release_many(200);
        unsigned kept =
            length(cache->head[object_class]) + bin_of(cache, object_class)->spare_count;
        assert_true(kept * size <= 65536);
        for (int round = 0; round < 8; round++) {
            allocate_many(2, size);
            release_many(2);
        }
        assert_true(bin_of(cache, object_class)->capacity > 0);
        assert_non_null(cache->head[object_class]);
    }
    check_cache(cache);
    thread_cache_flush(cache);
}

/* Small ones go back to their slabs soon after they were freed, while they are in the processor's
 * cache; once they are taken again, their bin is as large as before. */
static void test_small_blocks_only_freed_go_soon(void **state) {
    (void)state;
    enum { SIZE = 512, MOST_BLOCKS = 32 };
    struct thread_cache *cache = fresh_cache();
    slab_trim();
    const struct bin *bin = bin_of(cache, size_class_of(SIZE));
    for (int round = 0; round < 3; round++) {
        allocate_many(BLOCKS, SIZE);
        assert_true(bin->capacity > 2 * MOST_BLOCKS);
        release_many(BLOCKS);
        assert_int_equal(bin->capacity, MOST_BLOCKS);
        assert_in_range(length(cache->head[size_class_of(SIZE)]), 1, MOST_BLOCKS + 1);
        assert_in_range(length(bin->spare), 0, MOST_BLOCKS + 1); /* what little effort has left */
        check_cache(cache);
    }
    thread_cache_flush(cache);
}

/* A bin grows by running over, as far as blocks of its size may where the thread has others. */
static void test_bins_of_a_few_pages_hold_little(void **state) {
    (void)state;
    static const struct {
        size_t size, most;
    } bins[] = {{5000, 64 << 10}, {8192, 64 << 10}, {16384, 128 << 10}};
    struct thread_cache *cache = fresh_cache();
    options.cache_thread = 1 << 20; /* of which any bin is much */
    for (size_t i = 0; i < ARRAY_LENGTH(bins); i++) {
        unsigned object_class = size_class_of(bins[i].size);
        size_t reached = 0;
        for (int round = 0; round < 100; round++) {
            allocate_many(3 * bins[i].most / bins[i].size, bins[i].size);
            release_many(3 * bins[i].most / bins[i].size);
            reached = bits_max(reached, bin_of(cache, object_class)->capacity * bins[i].size);
        }
        CHECK(reached <= bins[i].most && reached >= bins[i].most / 2, "%zu: %zu bytes of %zu",
              bins[i].size, reached, bins[i].most);
    }
    thread_cache_flush(cache);
}

/* Above the soft limit a cache gives back what is beyond an eighth of its budget as it goes. */
static void test_pressure(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    for (int round = 0; round < 20; round++) { /* bins of greater blocks grow by being used again */
        for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
            allocate_many(30, size_classes[object_class].size);
            release_many(30);
        }
    }
    size_t small = options.cache_thread / 2 / 8;
    assert_true(cache->capacity_bytes > 2 * small);
    options.soft_limit = 1;
    limits_note_resident(2);
    for (int round = 0; round < 100; round++) {
        allocate_many(BLOCKS, 512);
        release_many(BLOCKS);
    }
    check_cache(cache);
    assert_true(cache->capacity_bytes <= small);
    assert_true(held_bytes(cache) <= 2 * small);
    options.soft_limit = OPTION_AUTO;
    limits_note_resident(0);
    thread_cache_flush(cache);
}

/* Above it, too, slabs that nobody touches give their free pages back, under a busy thread. */
static void test_pressure_on_slabs(void **state) {
    (void)state;
    if (memory_page_size() >= SLICE_SIZE) {
        skip(); /* a slab has no pages of its own that could sleep */
    }
    struct thread_cache *cache = fresh_cache();
    allocate_many(BLOCKS, 1024);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 40) { /* survivors in every third slab */
            release(blocks[i]);
        }
    }
    for (int is_pressed = 0; is_pressed <= 1; is_pressed++) {
        options.soft_limit = is_pressed ? 1 : 0;
        limits_note_resident(2);
        for (int round = 0; round < 20000; round++) { /* each some slow events */
            void *medium[16];                         /* more than a bin holds */
            for (size_t i = 0; i < ARRAY_LENGTH(medium); i++) {
                medium[i] = allocate(200000);
            }
            for (size_t i = 0; i < ARRAY_LENGTH(medium); i++) {
                release(medium[i]);
            }
        }
        assert_int_equal(slabs().asleep_bytes > 0, is_pressed);
    }
    options.soft_limit = OPTION_AUTO;
    limits_note_resident(0);
    for (size_t i = 0; i < BLOCKS; i += 40) {
        release(blocks[i]);
    }
    thread_cache_flush(cache);
}

/* Low water: blocks of a class go back to the slabs while the thread uses only another one. */
static void test_idle_blocks_go_back(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    unsigned idle_class = size_class_of(64);
    for (int round = 0; round < 10; round++) {
        allocate_many(1000, 64);
        release_many(1000);
    }
    assert_true(length(cache->head[idle_class]) + bin_of(cache, idle_class)->spare_count > 0);
    for (int round = 0; round < 1000; round++) {
        allocate_many(BLOCKS, 512);
        release_many(BLOCKS);
        if (!cache->head[idle_class] && !bin_of(cache, idle_class)->spare) {
            break;
        }
    }
    assert_null(cache->head[idle_class]);
    assert_null(bin_of(cache, idle_class)->spare);
    check_cache(cache);
    thread_cache_flush(cache);
}

static void test_flush(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    for (size_t size = 8; size <= MEDIUM_SIZE_MAX; size *= 2) {
        allocate_many(10, size);
        release_many(10);
    }
    assert_false(is_empty(cache));
    thread_cache_flush(cache);
    assert_true(is_empty(cache));
    check_cache(cache);
    assert_int_equal(slabs().slab_bytes, 0);
    release(allocate(24)); /* and goes on after that */
    check_cache(cache);
    thread_cache_flush(cache);
}

static unsigned caches_of_threads(void) {
    struct thread_cache_totals totals = {0};
    thread_cache_totals_add(&totals);
    return totals.cache_count;
}

static void work_in_thread(unsigned number) {
    struct random random = {number + 1};
    void *own[100] = {NULL};
    for (size_t i = 0; i < scaled(10000); i++) {
        size_t index = random_below(&random, ARRAY_LENGTH(own));
        release(own[index]);
        own[index] = allocate(random_size(&random, 100000));
    }
    for (size_t i = 0; i < ARRAY_LENGTH(own); i++) {
        release(own[i]);
    }
    CHECK(caches_of_threads() >= 2, "a thread that allocates has no cache");
    check_cache(thread_cache_own());
}

static void test_threads_leave_nothing(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    unsigned before = caches_of_threads();
    for (int round = 0; round < 5; round++) {
        unit_run_threads(THREADS, work_in_thread);
        assert_int_equal(caches_of_threads(), before);
    }
    assert_true(is_empty(cache));
    assert_int_equal(slabs().slab_bytes, 0);
    assert_int_equal(unit_slices_in_use(), 0);
}

/* A bin that its head and its spare take turns in grows until the head alone is enough. */
static void test_turns_make_bins_grow(void **state) {
    (void)state;
    enum { CAPACITY = 32, ROUNDS = 200, EACH = 48, MOST_EVENTS = 40 };
    struct thread_cache *cache = fresh_cache();
    unsigned object_class = size_class_of(512);
    allocate_many(2 * CAPACITY, 512);
    bin_flush(cache, object_class);
    bin_set_capacity(cache, object_class, CAPACITY);
    release_many(2 * CAPACITY);
    assert_int_equal(bin_of(cache, object_class)->spare_count, CAPACITY);
    uint32_t before = cache->slow_events;
    for (int round = 0; round < ROUNDS; round++) {
        allocate_many(EACH, 512);
        release_many(EACH);
    }
    assert_true(cache->slow_events - before <= MOST_EVENTS);
    assert_true(bin_of(cache, object_class)->capacity >= EACH);
    check_cache(cache);
    thread_cache_flush(cache);
}

/* The slow event that collects leaves a full bin full, and one block more in it. */
static void test_lists_stay_as_long_as_bins(void **state) {
    (void)state;
    enum { CAPACITY = 1024, INTERVAL = 64 };
    struct thread_cache *cache = fresh_cache();
    unsigned object_class = size_class_of(64);
    allocate_many(2 * CAPACITY + 2, 64);
    bin_flush(cache, object_class);
    bin_set_capacity(cache, object_class, CAPACITY);
    cache->slow_events &= ~(INTERVAL - 1u); /* or one of those that follow may collect, too */
    release_many(2 * CAPACITY);
    assert_int_equal(bin_of(cache, object_class)->spare_count, CAPACITY);
    cache->slow_events |= INTERVAL - 1;
    release(blocks[2 * CAPACITY]);
    assert_int_equal(cache->room[object_class], -1);
    release(blocks[2 * CAPACITY + 1]);
    assert_int_equal(bin_of(cache, object_class)->spare_count, CAPACITY);
    assert_int_equal(cache->room[object_class], CAPACITY - 2);
    check_cache(cache);
    thread_cache_flush(cache);
}

/* Processor 1 has a shard of its own, and its blocks come from there only if they are many. */
static void use_shards(unsigned number) {
    enum { LITTLE = 16, LARGE = 1024 };
    cpu_set_t processor;
    (void)number;
    CPU_ZERO(&processor);
    CPU_SET(1, &processor);
    if (sched_setaffinity(0, sizeof processor, &processor) != 0) {
        return; /* there is none */
    }
    release(allocate(LARGE));
    slab_initialise(2);
    allocate_many(LITTLE, LARGE);
    for (int i = 0; i < LITTLE; i++) {
        CHECK(load_relaxed(&span_of_block(blocks[i])->shard) == 0, "block %d is in a shard", i);
    }
    release_many(LITTLE);
    allocate_many(BLOCKS, LARGE);
    CHECK(load_relaxed(&span_of_block(blocks[BLOCKS - 1])->shard) == 1, "no shard is used");
    release_many(BLOCKS);
}

static void test_few_slabs_share_a_shard(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    unit_run_threads(1, use_shards);
    slab_initialise(1);
    thread_cache_flush(cache);
    assert_int_equal(slabs().slab_bytes, 0);
}

static void test_options_are_applied(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    unsigned before_class = size_table_bin(8);
    options.min_align = 16;
    options.stats = 1;
    thread_cache_apply_options();
    for (size_t size = 0; size <= 16; size++) {
        assert_int_equal(size_table_bin(size), CLASS_OF_16);
    }
    assert_ptr_not_equal(thread_cache_visible, cache);
    struct call_counts before = call_counts_of(CLASS_OF_16);
    allocate_many(10, 8);
    assert_int_equal((uintptr_t)blocks[0] % 16 + (uintptr_t)blocks[1] % 16, 0);
    release_many(7);
    struct call_counts after = call_counts_of(CLASS_OF_16);
    assert_int_equal(after.allocations - before.allocations, 10);
    assert_int_equal(after.requested_bytes - before.requested_bytes, 10 * 8);
    assert_int_equal(after.frees - before.frees, 7);
    for (int i = 7; i < 10; i++) {
        release(blocks[i]);
    }
    fresh_cache();
    assert_ptr_equal(thread_cache_visible, cache);
    assert_int_equal(size_table_bin(8), before_class);
}

int main(void) {
    options.maintenance = 0; /* these tests change options that its thread reads */
    defaults = options;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_refill_and_overflow),
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_budget_over_all_classes),
        cmocka_unit_test(test_total_is_divided),
        cmocka_unit_test(test_blocks_only_freed_are_not_kept),
        cmocka_unit_test(test_small_blocks_only_freed_go_soon),
        cmocka_unit_test(test_bins_of_a_few_pages_hold_little),
        cmocka_unit_test(test_pressure),
        cmocka_unit_test(test_pressure_on_slabs),
        cmocka_unit_test(test_idle_blocks_go_back),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_threads_leave_nothing),
        cmocka_unit_test(test_turns_make_bins_grow),
        cmocka_unit_test(test_lists_stay_as_long_as_bins),
        cmocka_unit_test(test_few_slabs_share_a_shard),
        cmocka_unit_test(test_options_are_applied),
        cmocka_unit_test(test_sparse_blocks),
    };
    return cmocka_run_group_tests_name("thread cache", tests, NULL, NULL);
}
