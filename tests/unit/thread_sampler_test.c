#include "objects/thread_sampler.h"

#include <math.h>
#include <pthread.h>

#include "objects/allocate.h"
#include "objects/deferred_free.h"
#include "objects/heap.h"
#include "os/machine.h"
#include "pages/span.h"
#include "pages/sparse.h"
#include "settings/options.h"
#include "primalloc.h"
#include "unit/unit.h"

static size_t begun[2]; /* samples, by user */

static void first_begin(void *block, const struct sample *sample) {
    (void)block;
    (void)sample;
    begun[0]++;
}

static void second_begin(void *block, const struct sample *sample) {
    (void)block;
    (void)sample;
    begun[1]++;
}

static struct sampler_user first = {.begin = first_begin};
static struct sampler_user second = {.begin = second_begin, .size_max = 500000};

static struct thread_cache *start(size_t interval) {
    heap_ensure();
    assert_true(sampler_start(&first, interval));
    struct thread_cache *cache = thread_cache_own();
    thread_sampler_adopt(cache);
    assert_true(cache->is_sampling);
    begun[0] = 0;
    begun[1] = 0;
    return cache;
}

static void stop(void) {
    sampler_stop(&first);
    sampler_stop(&second);
    thread_sampler_adopt(thread_cache_own());
    assert_false(thread_cache_own()->is_sampling);
}

/* Kinds of calls that are counted in different ways. */
struct kind {
    const char *name;
    size_t size;
    size_t alignment;
    size_t counted; /* the size that decides */
};

static const struct kind kinds[] = {
    {"small", 100, 0, 112},
    {"medium", 3000, 0, 3072},
    {"great", 200000, 0, 212992},
    {"large", 300000, 0, 300000},
    {"larger", 700000, 0, 700000},
    {"aligned", 90, 32, 96},
    {"page", 4000, 4096, 4096},
    {"slice", 20000, 16384, 32768},
    {"large by alignment", 100000, 65536, 100000},
};

/* How many calls there were and how many of them were sampled. */
struct tally {
    size_t calls;
    size_t samples;
};

static void check_tally(const struct kind *kind, const char *when, struct tally tally, double p) {
    double expected = (double)tally.calls * p;
    double sigma = sqrt(expected * (1 - p));
    double off = (double)tally.samples - expected;
    printf("%s, %s: %zu of %zu, %.2f sigma off\n", kind->name, when, tally.samples, tally.calls,
           off / (sigma + 1e-9));
    /* Where few are expected, of samples or of calls without, chance goes further than a normal
     * distribution says: so it comes here once in a million times, however few they are. */
    double most = sigma > 0 ? 5 * sigma + 8 : 0;
    CHECK(fabs(off) <= most, "%s: %.0f off, sigma %.2f", kind->name, off, sigma);
}

/* By the program's malloc, which pops and counts by itself, or by the library's. */
static void *allocate_kind(const struct kind *kind, bool is_ours) {
    if (kind->alignment) {
        return allocate_aligned(kind->size, kind->alignment);
    }
    return is_ours ? allocate(kind->size) : prim_malloc(kind->size);
}

static void check_independent(struct random random, bool is_sparse) {
    enum { INTERVAL = 100000 };
    struct tally tallies[ARRAY_LENGTH(kinds)][2] = {{{0, 0}}};
    struct thread_cache *cache = start(INTERVAL);
    thread_sampler_seed(cache, random_below(&random, SIZE_MAX));
    bool was_sampled = false;
    for (size_t i = 0; i < scaled(400000); i++) {
        size_t k = random_below(&random, ARRAY_LENGTH(kinds));
        size_t before = begun[0];
        store_relaxed(&sparse_is_on, is_sparse);
        release(allocate_kind(&kinds[k], random_below(&random, 2)));
        struct tally *tally = &tallies[k][was_sampled];
        was_sampled = begun[0] > before;
        tally->calls++;
        tally->samples += was_sampled;
    }
    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        double p = sampler_probability(kinds[k].counted, INTERVAL);
        check_tally(&kinds[k], "behind a sample", tallies[k][true], p);
        check_tally(&kinds[k], "behind others", tallies[k][false], p);
    }
    store_relaxed(&sparse_is_on, false);
    stop();
}

/* Whatever was called before, and whether that was sampled: each call is as likely to be as if a
 * coin of its own were thrown. */
static void test_independent(void **state) {
    (void)state;
    check_independent(unit_random(), false);
}

/* Also where greater blocks come from bins, which samplers count as large ones. */
static void test_independent_in_sparse_heap(void **state) {
    (void)state;
    check_independent(unit_random(), true);
    start((size_t)1 << 60);
    store_relaxed(&sparse_is_on, true);
    release(allocate(300000)); /* draws */
    void *block = allocate(300000);
    assert_int_equal(span_class_of(block), size_class_sparse(300000));
    release(block);
    store_relaxed(&sparse_is_on, false);
    stop();
}

/* One who wants all sizes, and one who does not want the greatest. */
static void test_two_users_of_large(void **state) {
    (void)state;
    static const struct kind sizes[] = {{"both", 300000, 0, 300000}, {"one", 900000, 0, 900000}};
    struct random random = unit_random();
    struct thread_cache *cache = start(2000000);
    assert_true(sampler_start(&second, 700000));
    thread_sampler_adopt(cache);
    thread_sampler_seed(cache, random_below(&random, SIZE_MAX));
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct tally tallies[2] = {{scaled(40000), 0}, {scaled(40000), 0}};
        size_t before[2] = {begun[0], begun[1]};
        for (size_t k = 0; k < tallies[0].calls; k++) {
            release(allocate(sizes[i].size));
        }
        tallies[0].samples = begun[0] - before[0];
        tallies[1].samples = begun[1] - before[1];
        check_tally(&sizes[i], "first", tallies[0], sampler_probability(sizes[i].size, 2000000));
        check_tally(&sizes[i], "second", tallies[1],
                    i == 0 ? sampler_probability(sizes[i].size, 700000) : 0);
    }
    stop();
}

static pthread_mutex_t weighing = PTHREAD_MUTEX_INITIALIZER;
static double weighed;      /* calls that the samples of a run stand for */
static size_t stretched[2]; /* samples: drawn by the interval that was asked for, and others */
static uint64_t cost;       /* of a sample at least, in ticks */
static struct sampler_user third; /* has a budget */

static void third_begin(void *block, const struct sample *sample) {
    (void)block;
    uint64_t start = machine_ticks();
    while (machine_ticks() - start < cost) {}
    pthread_mutex_lock(&weighing);
    weighed += sample->weight;
    stretched[sample->stretch > 0]++;
    pthread_mutex_unlock(&weighing);
}

enum { SHARERS = 4, SHARED_CALLS = 20000, SHARED_RUNS = 200, SHARED_HELD = 100 };

/* Each of its own size, but all sizes of one class, and some held for a while. */
static void allocate_shared(unsigned number) {
    void *held[SHARED_HELD] = {NULL};
    for (unsigned i = 0; i < SHARED_CALLS + SHARED_HELD; i++) {
        prim_free(held[i % SHARED_HELD]);
        held[i % SHARED_HELD] = i < SHARED_CALLS ? prim_malloc(990 + number) : NULL;
    }
}

/* Threads share a budget, so what one of them is charged stretches what others draw, at any moment
 * and by much where the machine is busy: the mean of many runs is the truth, within what their
 * own spread says of it. */
static void test_unbiased_where_threads_share_a_budget(void **state) {
    (void)state;
    double truth = (double)SHARERS * SHARED_CALLS;
    double sum = 0;
    double squares = 0;
    heap_ensure();
    third = (struct sampler_user){.begin = third_begin, .budget = 50000};
    cost = machine_ticks_a_ms() / 512;
    for (unsigned run = 0; run < SHARED_RUNS; run++) {
        assert_true(sampler_start(&third, 4096)); /* nothing is stretched at first */
        weighed = 0;
        unit_run_threads(SHARERS, allocate_shared);
        sum += weighed / truth / SHARED_RUNS;
        squares += weighed / truth * weighed / truth / SHARED_RUNS;
    }
    sampler_stop(&third);
    thread_sampler_adopt(thread_cache_own());
    double error = sqrt((squares - sum * sum) / SHARED_RUNS);
    printf("threads on a budget: %.5f of truth, error %.5f, %zu of %zu samples stretched\n", sum,
           error, stretched[true], stretched[false] + stretched[true]);
    assert_true(stretched[true] > SHARED_RUNS);
    assert_true(error < 0.3);
    assert_true(fabs(sum - 1) < 6 * error);
}

/* A thread that samples leaves malloc no medium blocks; one that does not leaves it all, and one
 * that slept while sampling began or ended finds out at its next call. */
static void test_medium_blocks_are_counted_while_sampling(void **state) {
    (void)state;
    heap_ensure();
    struct thread_cache *cache = thread_cache_own();
    assert_int_equal(cache->medium_size_max, MEDIUM_SIZE_MAX);
    start((size_t)1 << 60);
    assert_int_equal(cache->medium_size_max, SMALL_SIZE_MAX);
    stop();
    release(allocate(5000));
    assert_int_equal(cache->medium_size_max, MEDIUM_SIZE_MAX);
    assert_true(sampler_start(&first, 1)); /* every allocation, from this very one on */
    size_t before = begun[0];
    release(allocate(5000));
    release(allocate(5000));
    assert_int_equal(begun[0] - before, 2);
    stop();
    assert_true(sampler_start(&first, 1));
    sampler_stop(&first); /* nor does it stay without, if it slept all the while */
    release(prim_malloc(5000));
    assert_int_equal(cache->medium_size_max, MEDIUM_SIZE_MAX);
}

/* It has counted up to a far sample of one user's when another one wants every block. */
static void test_counts_end_with_another_user(void **state) {
    (void)state;
    for (size_t alignment = 0; alignment <= 4096; alignment += 4096) {
        const struct kind kind = {.size = 8192, .alignment = alignment};
        start((size_t)1 << 60);
        for (int i = 0; i < 3; i++) {
            release(allocate_kind(&kind, false));
        }
        assert_true(sampler_start(&second, 1));
        release(allocate_kind(&kind, false));
        assert_int_equal(begun[1], 1);
        stop();
    }
}

static void *count_and_end(void *argument) {
    (void)argument;
    for (int i = 0; i < 3; i++) {
        prim_free(prim_malloc(5000));
    }
    return thread_cache_own();
}

static void *free_and_allocate(void *block) {
    prim_free(block);
    prim_free(prim_malloc(5000));
    return thread_cache_own();
}

static void *run(void *body(void *argument), void *argument) {
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, body, argument), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

/* The same where the cache was nobody's meanwhile, and is full before it is asked for a block. */
static void test_counts_of_ended_thread_end(void **state) {
    (void)state;
    start((size_t)1 << 60);
    void *cache = run(count_and_end, NULL);
    void *block = prim_malloc(5000);
    assert_true(sampler_start(&second, 1));
    assert_ptr_equal(run(free_and_allocate, block), cache);
    assert_int_equal(begun[1], 1);
    stop();
}

static bool count_slow_call(bool is_forced, uint64_t heartbeat, void *count) {
    (void)is_forced;
    (void)heartbeat;
    ++*(int *)count;
    return false;
}

/* Aligned blocks come from the bins that are counted, as others do, without a slow call. */
static void test_aligned_blocks_are_popped(void **state) {
    (void)state;
    static const size_t sizes[] = {64, 4096};
    struct thread_cache *cache = start((size_t)1 << 60);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *blocks[3];
        for (size_t k = 0; k < ARRAY_LENGTH(blocks); k++) {
            blocks[k] = allocate_aligned(sizes[i], 64);
        }
        for (size_t k = 0; k < ARRAY_LENGTH(blocks); k++) {
            release(blocks[k]);
        }
        unsigned object_class = size_class_of(sizes[i]);
        unsigned bin = object_class <= SMALL_CLASS_LAST ? object_class + BIN_COUNT : object_class;
        void *next = cache->head[bin];
        assert_non_null(next);
        int slow_calls = 0;
        deferred_free_set(count_slow_call, &slow_calls);
        assert_ptr_equal(allocate_aligned(sizes[i], 64), next);
        assert_int_equal(slow_calls, 0);
        release(allocate_aligned(MEDIUM_SIZE_MAX + 1, 64)); /* one is seen */
        assert_int_equal(slow_calls, 1);
        deferred_free_set(NULL, NULL);
        release(next);
    }
    stop();
}

/* A thread that frees as much as it allocates takes few lists, however short they were at first. */
static void test_lists_grow(void **state) {
    (void)state;
    static const size_t sizes[] = {16, 64, 200, 1024};
    struct thread_cache *cache = start((size_t)1 << 50);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        unsigned bin = size_class_of(sizes[i]) + BIN_COUNT;
        size_t lists = 0;
        for (int k = 0; k < 100000; k++) {
            bool was_empty = cache->head[bin] == NULL;
            release(allocate(sizes[i]));
            lists += was_empty;
        }
        CHECK(lists < 6000, "%zu bytes: %zu lists", sizes[i], lists);
    }
    thread_cache_flush(cache);
    stop();
}

static void check_table(unsigned first_bin) {
    for (size_t size = 0; size <= SMALL_SIZE_MAX; size++) {
        assert_in_range(size_table_bin(size), first_bin + 1, first_bin + SMALL_CLASS_LAST);
    }
}

/* A hardened heap has no second bins: malloc(0) once looked for one behind the others. */
static void test_table_names_second_bins(void **state) {
    (void)state;
    start(1 << 20);
    check_table(BIN_COUNT);
    stop();
    check_table(0);
    options.hardened = 1;
    assert_true(sampler_start(&first, 1 << 20));
    check_table(0);
    sampler_stop(&first);
    options.hardened = 0;
}

int main(void) {
    options.maintenance = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_independent),
        cmocka_unit_test(test_independent_in_sparse_heap),
        cmocka_unit_test(test_two_users_of_large),
        cmocka_unit_test(test_unbiased_where_threads_share_a_budget),
        cmocka_unit_test(test_medium_blocks_are_counted_while_sampling),
        cmocka_unit_test(test_counts_end_with_another_user),
        cmocka_unit_test(test_counts_of_ended_thread_end),
        cmocka_unit_test(test_aligned_blocks_are_popped),
        cmocka_unit_test(test_lists_grow),
        cmocka_unit_test(test_table_names_second_bins),
    };
    return cmocka_run_group_tests_name("thread sampler", tests, NULL, NULL);
}
