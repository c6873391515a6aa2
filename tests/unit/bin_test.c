#include "objects/bin.h"

#include <pthread.h>
#include <string.h>

#include "objects/allocate.h"
#include "objects/heap.h"
#include "objects/slab_set.h"
#include "os/machine.h"
#include "pages/span.h"
#include "settings/options.h"
#include "unit/unit.h"

static int length(const void *list) {
    int count = 0;
    for (; list; list = *(void *const *)list) {
        count++;
    }
    return count;
}

static struct thread_cache *fresh_cache(void) {
    heap_ensure();
    struct thread_cache *cache = thread_cache_own();
    CHECK(cache != NULL, "the thread has no cache");
    thread_cache_flush(cache);
    slab_trim();
    return cache;
}

static void check_bin(struct thread_cache *cache, unsigned object_class) {
    const struct bin *bin = bin_of(cache, object_class);
    assert_int_equal(cache->room[object_class] + length(cache->head[object_class]),
                     bin_head_most(bin));
    assert_int_equal(length(bin->spare), bin->spare_count);
}

static unsigned first_capacity(struct thread_cache *cache, size_t size) {
    const unsigned object_class = size_class_of(size);
    bin_begin_use(cache, object_class);
    return bin_of(cache, object_class)->capacity;
}

struct heir {
    uint32_t leaves; /* so many slow events */
    unsigned of_64, of_1024, of_4096;
};

static void *inherit(void *context) {
    struct heir *heir = context;
    struct thread_cache *cache = fresh_cache();
    heir->of_64 = first_capacity(cache, 64);
    heir->of_1024 = first_capacity(cache, 1024);
    heir->of_4096 = first_capacity(cache, 4096);
    cache->slow_events = heir->leaves;
    return NULL;
}

/* A thread's first bins are greater if its cache was used much before it. */
static void test_inherited_bins(void **state) {
    (void)state;
    struct heir heirs[4] = {[1] = {.leaves = 2000}};
    for (unsigned i = 0; i < ARRAY_LENGTH(heirs); i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, inherit, &heirs[i]), 0);
        pthread_join(thread, NULL);
        bool has_earned = i && heirs[i - 1].leaves;
        assert_int_equal(heirs[i].of_64, has_earned ? 16 : 8);
        assert_int_equal(heirs[i].of_1024, has_earned ? 4 : 1);
        assert_int_equal(heirs[i].of_4096, 1);
    }
}

/* Takes a block and gives it back; returns the class that it is of. */
static unsigned turn(struct thread_cache *cache, unsigned object_class) {
    void *block = thread_cache_refill(cache, object_class, 0, NULL);
    assert_non_null(block);
    unsigned found = span_class_of(block);
    release(block);
    check_bin(cache, object_class);
    check_bin(cache, found);
    return found;
}

/* Bytes that a bin comes to hold at most. */
static size_t grown(struct thread_cache *cache, size_t size) {
    const unsigned object_class = size_class_of(size);
    bin_begin_use(cache, object_class);
    for (unsigned i = 0; i < 16; i++) {
        bin_grow(cache, object_class);
    }
    return bin_of(cache, object_class)->capacity * size;
}

static void check_capacities(size_t most) {
    struct thread_cache *cache = fresh_cache();
    assert_int_equal(grown(cache, 64), 64 << 10); /* few bins: as long as they are few */
    assert_int_equal(grown(cache, 128), 64 << 10);
    assert_int_equal(grown(cache, 256), most);
    assert_int_equal(grown(cache, 4096), most);
    assert_int_equal(grown(cache, 8192), 64 << 10); /* eight blocks */
    fresh_cache();
}

/* Bins are greater once there is a second thread, while all of them are little of what they may. */
static void test_capacities(void **state) {
    (void)state;
    assert_true(slab_is_for_one());
    check_capacities(16 << 10);
    slab_initialise(1); /* one thread alone keeps no lists: all tests that follow are of several */
    check_capacities(32 << 10);
    size_t cache_thread = options.cache_thread;
    options.cache_thread = 1 << 20;
    check_capacities(16 << 10);
    options.cache_thread = cache_thread;
}

/* What a bin of blocks of 64 KiB comes to hold, in a thread that has earned as much. */
static size_t grown_great(void) {
    struct thread_cache *cache = fresh_cache();
    uint64_t events = cache->slow_events;
    cache->slow_events = 8192;
    size_t bytes = grown(cache, 64 << 10);
    cache->slow_events = events;
    fresh_cache();
    return bytes;
}

static void *great_of_two(void *context) {
    *(size_t *)context = grown_great();
    return NULL;
}

/* Among more threads than shards, which are as many as processors, it holds less. */
static void test_capacity_of_who_waits(void **state) {
    (void)state;
    uint64_t asked = options.shards;
    for (unsigned shards = 2; shards >= 1; shards--) {
        pthread_t second;
        size_t bytes = 0;
        options.shards = shards;
        assert_int_equal(grown_great(), 384 << 10);
        assert_int_equal(pthread_create(&second, NULL, great_of_two, &bytes), 0);
        pthread_join(second, NULL);
        assert_int_equal(slab_shard_count(), shards);
        assert_int_equal(bytes, shards == 1 ? 256 << 10 : 384 << 10);
    }
    options.shards = asked;
}

enum { SHORT_CAPACITY = 8, SHORT_SIZE = 4000 };

/* Frees as many blocks as fill a short bin's head, and one more, which makes room. */
static struct thread_cache *with_short_bin(void) {
    static void *blocks[2 * SHORT_CAPACITY + 1];
    struct thread_cache *cache = fresh_cache();
    unsigned object_class = size_class_of(SHORT_SIZE);
    for (unsigned i = 0; i < ARRAY_LENGTH(blocks); i++) {
        blocks[i] = allocate(SHORT_SIZE);
    }
    bin_flush(cache, object_class);
    bin_set_capacity(cache, object_class, SHORT_CAPACITY);
    cache->slow_events = 0; /* the next has nothing else to do */
    for (unsigned i = 0; i < 2 * SHORT_CAPACITY; i++) {
        release(blocks[i]);
    }
    assert_int_equal(length(cache->head[object_class]), 2 * SHORT_CAPACITY);
    assert_int_equal(cache->slow_events, 0);
    release(blocks[2 * SHORT_CAPACITY]);
    assert_int_equal(cache->slow_events, 1);
    assert_ptr_equal(cache->head[object_class], blocks[2 * SHORT_CAPACITY]);
    if (!slab_is_for_one()) { /* the newest went first, as it was just read */
        const void *list = slab_first_shard.rests[object_class].lists;
        assert_ptr_equal(list, blocks[2 * SHORT_CAPACITY - 1]);
        assert_int_equal(length(list), 2 * SHORT_CAPACITY - 5);
    }
    bin_set_capacity(cache, object_class, SHORT_CAPACITY); /* it grew */
    return cache;
}

static void end_short_bin(struct thread_cache *cache) {
    unsigned object_class = size_class_of(SHORT_SIZE);
    check_bin(cache, object_class);
    bin_flush(cache, object_class);
    bin_set_capacity(cache, object_class, 0);
}

/* A short bin has all blocks in its head, and gives the older half away when it is full. A
 * collection sets the older half aside where a thread is alone, and all where there are several. */
static void check_short_bin(unsigned kept, unsigned stay) {
    struct thread_cache *cache = with_short_bin();
    unsigned object_class = size_class_of(SHORT_SIZE);
    const struct bin *bin = bin_of(cache, object_class);
    assert_int_equal(length(cache->head[object_class]), kept + 1);
    assert_null(bin->spare);
    check_bin(cache, object_class);
    bin_set_aside(cache, object_class);
    assert_int_equal(bin->spare_count, kept + 1 - stay);
    assert_int_equal(length(cache->head[object_class]), stay);
    end_short_bin(cache);
}

static void test_short_bin_alone(void **state) {
    (void)state;
    assert_true(slab_is_for_one());
    check_short_bin(SHORT_CAPACITY, SHORT_CAPACITY);
}

static void test_short_bin_of_several(void **state) {
    (void)state;
    assert_false(slab_is_for_one());
    check_short_bin(5, 0); /* the walk to the cut is short: others may have its blocks */
}

/* A medium class without a block takes what the next one has, but not for ever. */
static void test_borrowing(void **state) {
    (void)state;
    enum { TIMES = 60 };
    for (unsigned object_class = 1; object_class < CLASS_COUNT; object_class++) {
        struct thread_cache *cache = fresh_cache();
        assert_int_equal(turn(cache, object_class + 1), object_class + 1);
        unsigned times = 0;
        while (turn(cache, object_class) != object_class) {
            assert_in_range(++times, 1, TIMES);
        }
        assert_int_equal(times > 0, object_class > SMALL_CLASS_LAST);
    }
    fresh_cache();
}

/* Not while there are blocks of its own that were in use before. */
static void test_own_blocks_first(void **state) {
    (void)state;
    enum { OWN = 60, OTHERS = 61 };
    struct thread_cache *cache = fresh_cache();
    void *block = NULL;
    void *held = NULL; /* keeps the slab */
    assert_int_equal(slab_acquire(0, OWN, 1, &block, NULL), 1);
    assert_int_equal(slab_acquire(0, OWN, 1, &held, NULL), 1);
    *(void **)block = *(void **)held = NULL;
    slab_release(OWN, block);
    assert_int_equal(turn(cache, OTHERS), OTHERS);
    assert_int_equal(turn(cache, OWN), OWN);
    slab_release(OWN, held);
    fresh_cache();
}

/* What a bin without capacity is given waits for who needs it, unless the user wants none kept. */
static void test_block_without_a_bin(void **state) {
    (void)state;
    const unsigned object_class = size_class_of(8192);
    struct thread_cache *cache = fresh_cache();
    size_t cache_max = options.cache_max;
    void *held = NULL; /* keeps the slab */
    assert_int_equal(slab_acquire(0, object_class, 1, &held, NULL), 1);
    for (unsigned i = 0; i < 2; i++) {
        void *block = NULL;
        assert_int_equal(slab_acquire(0, object_class, 1, &block, NULL), 1);
        bin_give_block(cache, object_class, block);
        struct slab_totals totals = {0};
        slab_totals_add(&totals);
        assert_int_equal(totals.listed_blocks, i == 0);
        assert_int_equal(slab_acquire(0, object_class, 1, &block, NULL), 1);
        *(void **)block = NULL;
        slab_release(object_class, block);
        options.cache_max = 4096;
    }
    options.cache_max = cache_max;
    *(void **)held = NULL;
    slab_release(object_class, held);
    fresh_cache();
}

/* A bin that is only freed to shrinks where no other thread wants its blocks: not when there is no
 * room for more lists, but when these were idle. Once somebody takes a block it grows again. */
static void test_size_of_what_is_only_freed(void **state) {
    (void)state;
    enum { BLOCKS = 2900, PART = 500, SIZE = 512, FEWEST = 32 };
    static void *blocks[BLOCKS];
    unsigned object_class = size_class_of(SIZE);
    const struct bin *bin = bin_of(fresh_cache(), object_class);
    void *held = NULL;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate(SIZE);
    }
    for (unsigned i = BLOCKS; i-- > 0;) {
        release(blocks[i]);
        if (i == 2 * PART) {
            assert_true(bin->capacity > FEWEST);
            slab_trim();
        } else if (i == PART) {
            assert_int_equal(bin->capacity, FEWEST);
            assert_int_equal(slab_acquire(0, object_class, 1, &held, NULL), 1);
        }
    }
    assert_true(bin->capacity > FEWEST);
    *(void **)held = NULL;
    slab_release(object_class, held);
    fresh_cache();
}

/* Allocates and frees so many blocks; returns the greatest capacity that their bin had. */
static unsigned allocate_and_release(const struct bin *bin, void **blocks, unsigned count,
                                     size_t size) {
    unsigned most = 0;
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = allocate(size);
    }
    for (unsigned i = 0; i < count; i++) {
        release(blocks[i]);
        most = (unsigned)bits_max(most, bin->capacity);
    }
    return most;
}

/* After 512 KiB of a greater size freed in a row its bin shrinks. If as much is wanted again, it
 * may grow to half of what the thread may hold and more, and shrinks only after 8 MiB: then all
 * that goes round stays in it. */
static void test_capacity_of_what_comes_back(void **state) {
    (void)state;
    enum { FEW = 100, MORE = 300, MANY = 1000, SIZE = 28000, LEARNS = 3, ROUNDS = 8 };
    static void *blocks[MANY];
    unsigned object_class = size_class_of(SIZE);
    struct thread_cache *cache = fresh_cache();
    const struct bin *bin = bin_of(cache, object_class);
    unsigned most = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t events = cache->slow_events;
        most = (unsigned)bits_max(most, allocate_and_release(bin, blocks, FEW, SIZE));
        assert_int_equal(bin->came_back != 0, i > 0);
        assert_true(i > 0 || bin->capacity == 0);
        assert_true(i < LEARNS || cache->slow_events - events <= 3); /* head and spare change */
    }
    assert_in_range(most, FEW / 2, 9 * (4 << 20) / 16 / SIZE);
    allocate_and_release(bin, blocks, MORE, SIZE); /* 8.4 MB, a good half of which run over */
    assert_in_range(bin->capacity, most, 2 * most);
    for (unsigned i = 0; i < ROUNDS; i++) { /* 28 MB are too much each time */
        allocate_and_release(bin, blocks, MANY, SIZE);
        assert_int_equal(bin->capacity, 0);
    }
    fresh_cache();
}

/* What is less, or of small blocks, stays as well, while the thread has little else; or else as
 * much of it as usual. */
static void check_few_that_come_back(unsigned usual) {
    enum { BLOCKS = 400, MORE = 700, SIZE = 1024, LEARNS = 4, ROUNDS = 12 };
    enum { OTHER = 32 << 10, OTHERS = 8, MOST = 256 << 10 };
    static void *blocks[MORE];
    struct thread_cache *cache = fresh_cache();
    const struct bin *bin = bin_of(cache, size_class_of(SIZE));
    const unsigned others = size_class_of(OTHER);
    for (unsigned few = 2; few-- > 0;) {
        unsigned most = 0;
        unsigned quiet = 0; /* rounds of few slow calls */
        for (unsigned i = 0; i < ROUNDS; i++) {
            uint64_t events = cache->slow_events;
            most = (unsigned)bits_max(most, allocate_and_release(bin, blocks, BLOCKS, SIZE));
            quiet += cache->slow_events - events <= 3;
        }
        assert_int_equal(most * SIZE, few ? MOST : usual);
        assert_true(few ? quiet >= ROUNDS - LEARNS : quiet == 0);
        allocate_and_release(bin, blocks, MORE, SIZE);
        assert_true(bin->capacity == most || !few);
        fresh_cache();
        bin_begin_use(cache, others);
        bin_set_capacity(cache, others, OTHERS);
    }
    fresh_cache();
}

static void test_few_that_come_back_alone(void **state) {
    (void)state;
    assert_true(slab_is_for_one());
    check_few_that_come_back(16 << 10);
}

static void test_few_that_come_back(void **state) {
    (void)state;
    assert_false(slab_is_for_one());
    check_few_that_come_back(32 << 10);
}

/* A thread that may hold little lets what came back have as much as other blocks. */
static void test_little_that_comes_back(void **state) {
    (void)state;
    enum { SIZE = 3072 };
    size_t cache_thread = options.cache_thread;
    options.cache_thread = 128 << 10; /* a sixteenth of half of which is a block and a third */
    size_t usual = grown(fresh_cache(), SIZE);
    struct thread_cache *cache = fresh_cache();
    bin_of(cache, size_class_of(SIZE))->came_back = 1;
    assert_int_equal(grown(cache, SIZE), usual);
    options.cache_thread = cache_thread;
    fresh_cache();
}

/* However many sizes come back, all is within the thread's bound. */
static void test_bound_of_what_comes_back(void **state) {
    (void)state;
    enum { BLOCKS = 300, SIZES = 3, ROUNDS = 8 };
    static const size_t sizes[SIZES] = {14000, 18000, 22000};
    static void *blocks[BLOCKS];
    struct thread_cache *cache = fresh_cache();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SIZES; i++) {
            const struct bin *bin = bin_of(cache, size_class_of(sizes[i]));
            allocate_and_release(bin, blocks, BLOCKS, sizes[i]);
            check_bin(cache, size_class_of(sizes[i]));
            assert_true(cache->capacity_bytes <= thread_cache_budget(cache));
        }
    }
    for (unsigned i = 0; i < SIZES; i++) {
        assert_true(bin_of(cache, size_class_of(sizes[i]))->came_back);
    }
    fresh_cache();
}

/* A slab of pages that were in use before gives as many blocks as are wanted. */
static void test_used_pages(void **state) {
    (void)state;
    enum { SIZE = 20000, OF_A_SLAB = 4 };
    unsigned object_class = size_class_of(SIZE);
    struct thread_cache *cache = fresh_cache();
    for (unsigned i = 0; i < 2; i++) {
        bin_begin_use(cache, object_class);
        bin_set_capacity(cache, object_class, OF_A_SLAB);
        void *block = allocate(SIZE);
        memset(block, 1, SIZE);
        if (i) {
            assert_false(span_of_block(block)->is_zero);
            assert_int_equal(length(cache->head[object_class]), OF_A_SLAB - 1);
            check_bin(cache, object_class);
        }
        release(block);
        fresh_cache();
    }
}

static void test_alignment(void **state) {
    (void)state;
    enum { BLOCKS = 64, SIZES = 9, STEP = 500 };
    void *blocks[BLOCKS];
    fresh_cache();
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate(SMALL_SIZE_MAX + i * STEP);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        release(blocks[i]);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t alignment = (size_t)16 << i % SIZES;
        blocks[i] = allocate_aligned(SMALL_SIZE_MAX + i * STEP, alignment);
        assert_int_equal((uintptr_t)blocks[i] % alignment, 0);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        release(blocks[i]);
    }
    fresh_cache();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_bin_alone),
        cmocka_unit_test(test_few_that_come_back_alone),
        cmocka_unit_test(test_capacities),
        cmocka_unit_test(test_capacity_of_who_waits),
        cmocka_unit_test(test_short_bin_of_several),
        cmocka_unit_test(test_borrowing),
        cmocka_unit_test(test_own_blocks_first),
        cmocka_unit_test(test_block_without_a_bin),
        cmocka_unit_test(test_size_of_what_is_only_freed),
        cmocka_unit_test(test_capacity_of_what_comes_back),
        cmocka_unit_test(test_few_that_come_back),
        cmocka_unit_test(test_little_that_comes_back),
        cmocka_unit_test(test_bound_of_what_comes_back),
        cmocka_unit_test(test_used_pages),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_inherited_bins),
    };
    return cmocka_run_group_tests_name("bin", tests, NULL, NULL);
}
