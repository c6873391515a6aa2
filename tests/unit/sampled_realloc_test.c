/* What realloc makes of sampled blocks: they count as many as there are. */
#include "objects/sampler.h"

#include <math.h>

#include "objects/allocate.h"
#include "objects/heap.h"
#include "objects/tag.h"
#include "objects/thread_sampler.h"
#include "pages/sparse.h"
#include "unit/unit.h"

enum { COUNT = 20000, SLOTS = 1 << 17 };

/* The samples that there were, by address. */
static struct {
    const void *block;
    double weight; /* 0: it has ended */
    size_t size;
} seen[SLOTS];

static void *blocks[COUNT];

static size_t slot_of(const void *block) {
    size_t slot = (uintptr_t)block / 8 * 0x9e3779b97f4a7c15u >> 47;
    while (seen[slot].block && seen[slot].block != block) {
        slot = (slot + 1) % SLOTS;
    }
    return slot;
}

static void begin(void *block, const struct sample *sample) {
    size_t slot = slot_of(block);
    seen[slot].block = block;
    seen[slot].weight = sample->weight;
    seen[slot].size = sample->size;
}

static bool end(void *block, size_t size) {
    size_t slot = slot_of(block);
    seen[slot].weight = size ? seen[slot].weight : 0;
    seen[slot].size = size;
    return true;
}

static struct sampler_user user = {.begin = begin, .end = end};

static void start(size_t interval, uint64_t seed) {
    heap_ensure();
    memset(seen, 0, sizeof seen);
    assert_true(sampler_start(&user, interval));
    struct thread_cache *cache = thread_cache_own();
    thread_sampler_adopt(cache);
    assert_true(cache->is_sampling);
    thread_sampler_seed(cache, seed);
}

static void stop(void) {
    sampler_stop(&user);
    thread_sampler_adopt(thread_cache_own());
}

/* Resizes so many blocks and adds up those in use, which all have the size, by their samples. */
static double count_resized(size_t from, size_t to, size_t blocks_wanted) {
    double count = 0;
    for (size_t n = 0; n < blocks_wanted; n++) {
        blocks[n] = reallocate(allocate(from), to);
        assert_non_null(blocks[n]);
    }
    for (size_t n = 0; n < blocks_wanted; n++) {
        size_t slot = slot_of(blocks[n]);
        count += seen[slot].block ? seen[slot].weight : 0;
        CHECK(seen[slot].weight == 0 || seen[slot].size == to, "%zu to %zu: has %zu", from, to,
              seen[slot].size);
        release(blocks[n]);
    }
    return count;
}

static void check_some_resized(size_t from, size_t to, size_t wanted, uint64_t seed) {
    size_t interval = good_size(from);
    start(interval, seed);
    double count = count_resized(from, to, wanted);
    size_t least = good_size(to) < interval ? good_size(to) : interval;
    double p = sampler_probability(least, (double)interval);
    printf("%zu to %zu: %.4f of truth\n", from, to, count / (double)wanted);
    CHECK(fabs(count - (double)wanted) < 6 * sqrt((double)wanted * (1 - p) / p),
          "%zu to %zu: %g of %zu blocks", from, to, count, wanted);
    stop();
}

static void check_resized(size_t from, size_t to, uint64_t seed) {
    check_some_resized(from, to, COUNT, seed);
}

/* Where realloc leaves a sampled block, but moves others and draws anew, some would count twice. */
static void test_each_counts_once(void **state) {
    (void)state;
    static const size_t steps[][2] = {{5, 8},   {8, 12},  {16, 5},  {12, 16},  {24, 12},   {32, 8},
                                      {48, 20}, {64, 20}, {64, 40}, {100, 40}, {1000, 400}};
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        check_resized(steps[i][0], steps[i][1], i);
    }
}

static void test_each_counts_once_under_a_tag(void **state) {
    (void)state;
    static const size_t steps[][2] = {{64, 20}, {1000, 600}, {1000, 400}, {3000, 1600}};
    assert_true(tag_push("resized"));
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        check_resized(steps[i][0], steps[i][1], i);
    }
    tag_pop();
}

/* Those that are not sampled are of a class meanwhile, and stay in it where large ones change. */
static void test_each_counts_once_where_blocks_stay_untouched(void **state) {
    (void)state;
    enum { SOME = 2000, KIB = 1024 };
    static const size_t steps[][2] = {{300, 280}, {300, 310}, {330, 600},  {700, 400}, {700, 720},
                                      {700, 200}, {900, 600}, {900, 1000}, {400, 20},  {600, 1500}};
    unsigned of_class = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        store_relaxed(&sparse_is_on, true);
        check_some_resized(steps[i][0] * KIB, steps[i][1] * KIB, SOME, i);
        store_relaxed(&sparse_is_on, true);
        start(steps[i][0] * KIB * 8, i);
        void *block = allocate(steps[i][0] * KIB);
        of_class += span_class_of(block) <= CLASS_COUNT;
        release(block);
        stop();
    }
    assert_in_range(of_class, ARRAY_LENGTH(steps) / 2, ARRAY_LENGTH(steps));
    store_relaxed(&sparse_is_on, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_counts_once),
        cmocka_unit_test(test_each_counts_once_under_a_tag),
        cmocka_unit_test(test_each_counts_once_where_blocks_stay_untouched),
    };
    return cmocka_run_group_tests_name("sampled realloc", tests, NULL, NULL);
}
