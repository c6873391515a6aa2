#include "objects/sampler.h"

#include <math.h>
#include <pthread.h>

#include "objects/allocate.h"
#include "objects/arena.h"
#include "objects/heap.h"
#include "objects/slab.h"
#include "objects/thread_sampler.h"
#include "os/machine.h"
#include "settings/options.h"
#include "primalloc.h"
#include "unit/unit.h"

enum { INTERVAL = 4096, SEEDS = 200, THREADS = 4, SLOTS = 1 << 16, HELD = 2000 };

/* What the user under test was told: live samples by address, and sums over all of them. */
static struct {
    pthread_mutex_t lock;
    void *blocks[SLOTS];
    struct sample samples[SLOTS];
    size_t live;
    size_t begun;
    double count;
    double bytes;
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t slot_of(const void *block) {
    size_t slot = (uintptr_t)block / 16 * 0x9e3779b97f4a7c15u >> 48;
    while (told.blocks[slot] && told.blocks[slot] != block) {
        slot = (slot + 1) % SLOTS;
    }
    return slot;
}

/* What a sample costs at least, in ticks: a budget's test must not wait for a slow machine to
 * exhaust it. */
static uint64_t cost;

static void begin(void *block, const struct sample *sample) {
    uint64_t start = machine_ticks();
    while (machine_ticks() - start < cost) {}
    pthread_mutex_lock(&told.lock);
    size_t slot = slot_of(block);
    CHECK(!told.blocks[slot], "%p begins twice", block);
    told.blocks[slot] = block;
    told.samples[slot] = *sample;
    told.live++;
    told.begun++;
    told.count += sample->weight;
    told.bytes += sample->weight * (double)sample->size;
    pthread_mutex_unlock(&told.lock);
    CHECK(usable_size(block) >= sample->size, "%zu bytes of %zu", usable_size(block), sample->size);
    CHECK(!sample->alignment || (uintptr_t)block % sample->alignment == 0, "unaligned");
}

/* Closes the gap behind a slot that became free. */
static bool end(void *block, size_t size) {
    pthread_mutex_lock(&told.lock);
    size_t slot = slot_of(block);
    if (told.blocks[slot] && size == 0) {
        told.blocks[slot] = NULL;
        told.live--;
        for (slot = (slot + 1) % SLOTS; told.blocks[slot]; slot = (slot + 1) % SLOTS) {
            void *moved = told.blocks[slot];
            told.blocks[slot] = NULL;
            size_t target = slot_of(moved);
            told.blocks[target] = moved;
            told.samples[target] = told.samples[slot];
        }
    }
    pthread_mutex_unlock(&told.lock);
    return true;
}

static struct sampler_user user = {.begin = begin, .end = end};

static void forget_sums(void) {
    pthread_mutex_lock(&told.lock);
    told.begun = 0;
    told.count = 0;
    told.bytes = 0;
    pthread_mutex_unlock(&told.lock);
}

static struct thread_cache *start(size_t interval) {
    heap_ensure();
    assert_true(sampler_start(&user, interval));
    struct thread_cache *cache = thread_cache_own();
    thread_sampler_adopt(cache);
    assert_true(cache->is_sampling);
    forget_sums();
    return cache;
}

static void stop(void) {
    sampler_stop(&user);
    thread_sampler_adopt(thread_cache_own());
    assert_false(thread_cache_own()->is_sampling);
}

__attribute__((unused)) static void test_functions(void **state) {
    (void)state;
    for (size_t size = 8; size < (size_t)1 << 30; size = size * 3 / 2) {
        for (double interval = 16; interval < 1e12; interval *= 7) {
            double expected = -expm1(-(double)size / interval);
            double difference = sampler_probability(size, interval) / expected - 1;
            CHECK(fabs(difference) < 1e-9, "%zu/%g: off by %g", size, interval, difference);
        }
    }
    assert_true(sampler_probability(SIZE_MAX, 1) == 1);
    /* The mean of draws of one byte each is that of a geometric distribution. */
    uint64_t random = 1;
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        sum += (double)sampler_draw(&random, 1000, 1);
    }
    assert_true(fabs(sum / 100000 - 999.5) < 15);
    assert_int_equal(size_class_of(SMALL_SIZE_MAX), SMALL_CLASS_LAST);
}

/* One call site: always the same request. */
struct site {
    const char *name;
    size_t size;
    size_t alignment;
    size_t calls;
    bool is_held; /* allocated all at once, then freed all at once */
};

static const struct site sites[] = {
    {"small", 24, 0, 60000, false},        {"small, held", 200, 0, 10000, true},
    {"table's end", 1000, 0, 2500, false}, {"medium", 5000, 0, 1200, false},
    {"medium, held", 3000, 0, 1200, true}, {"large", 300000, 0, 20, false},
    {"aligned", 100, 64, 18000, false},    {"aligned medium", 2000, 256, 1500, true},
};

static void *blocks[60000];

static void visit(const struct site *site) {
    for (size_t i = 0; i < site->calls; i++) {
        blocks[i] =
            site->alignment ? allocate_aligned(site->size, site->alignment) : allocate(site->size);
        assert_non_null(blocks[i]);
        if (!site->is_held) {
            release(blocks[i]);
        }
    }
    for (size_t i = 0; site->is_held && i < site->calls; i++) {
        release(blocks[i]);
    }
}

/* The estimate of each site's calls and bytes, over many seeds: without bias, and spread as samples
 * that know nothing of each other are. Returns how many are farther off than three standard
 * deviations; none is farther off than five. */
static unsigned check_site(const struct site *site, size_t interval) {
    struct thread_cache *cache = start(interval);
    double sum = 0;
    double sum_bytes = 0;
    unsigned beyond = 0;
    uint64_t random = 1;
    double p = 0;
    void *probe =
        site->alignment ? allocate_aligned(site->size, site->alignment) : allocate(site->size);
    size_t counted = site->size > MEDIUM_SIZE_MAX ? site->size : good_size(usable_size(probe));
    release(probe);
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        thread_sampler_seed(cache, sampler_random(&random));
        forget_sums();
        visit(site);
        assert_int_equal(told.live, 0);
        p = sampler_probability(counted, (double)interval);
        double sigma = sqrt((double)site->calls * (1 - p) / p);
        double error = fabs(told.count - (double)site->calls);
        beyond += error > 3 * sigma + 1e-6;
        CHECK(error <= 5 * sigma + 1e-6, "%s: seed %u gives %g of %zu, sigma %g", site->name, seed,
              told.count, site->calls, sigma);
        sum += told.count / SEEDS;
        sum_bytes += told.bytes / SEEDS;
    }
    double truth = (double)site->calls;
    double bytes = truth * (double)site->size;
    printf("%s: p %.5f, count %.5f, bytes %.5f of truth, %u beyond three sigma\n", site->name, p,
           sum / truth, sum_bytes / bytes, beyond);
    assert_true(fabs(sum / truth - 1) < 0.01);
    assert_true(fabs(sum_bytes / bytes - 1) < 0.01);
    stop();
    return beyond;
}

__attribute__((unused)) static void test_unbiased(void **state) {
    (void)state;
    unsigned beyond = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(sites); i++) {
        beyond += check_site(&sites[i], INTERVAL);
    }
    /* A normal distribution has 2.7 in 1,000 there, 4.3 of these 1,600: more than 12 come once in
     * 2,000 times. */
    assert_true(beyond <= 12);
}

/* With a budget that allows a small part of the samples, the interval changes all the time; the
 * mean of many runs is the truth all the same, within what the runs' own spread says of it. Neither
 * depends on how fast the machine is. */
static void check_site_on_a_budget(const struct site *site) {
    size_t counted = site->size > MEDIUM_SIZE_MAX ? site->size : good_size(site->size);
    double sum = 0;
    double squares = 0;
    size_t samples = 0;
    user.budget = 1000;
    cost = machine_ticks_a_ms() / 512;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        thread_sampler_seed(start(counted), seed);
        forget_sums();
        visit(site);
        assert_int_equal(told.live, 0);
        double ratio = told.count / (double)site->calls;
        assert_true(fabs(told.bytes / told.count / (double)site->size - 1) < 1e-9);
        sum += ratio / SEEDS;
        squares += ratio * ratio / SEEDS;
        samples += told.begun;
    }
    double error = sqrt((squares - sum * sum) / SEEDS);
    double part = (double)samples / SEEDS / (double)site->calls;
    part /= sampler_probability(counted, (double)counted);
    printf("%s on a budget: %.3f of the samples, count %.5f of truth, error %.5f\n", site->name,
           part, sum, error);
    assert_true(part < 0.5);
    assert_true(error < 0.15);
    assert_true(fabs(sum - 1) < 6 * error);
    cost = 0;
    user.budget = 0;
    stop();
}

__attribute__((unused)) static void test_unbiased_on_a_budget(void **state) {
    (void)state;
    static const struct site storms[] = {
        {"small", 24, 0, 60000, false},     {"small, held", 200, 0, 40000, true},
        {"medium", 5000, 0, 20000, false},  {"large", 300000, 0, 10000, false},
        {"aligned", 100, 64, 40000, false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(storms); i++) {
        check_site_on_a_budget(&storms[i]);
    }
}

/* Sites in turns, some from the slow door: none takes another's samples. */
__attribute__((unused)) static void test_sites_mixed(void **state) {
    (void)state;
    enum { ROUNDS = 4000 };
    struct thread_cache *cache = start(INTERVAL);
    double sums[2] = {0, 0};
    uint64_t random = 7;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        thread_sampler_seed(cache, sampler_random(&random));
        for (size_t i = 0; i < ROUNDS; i++) {
            double before = told.count;
            void *plain = allocate(1024);
            sums[0] += told.count - before;
            before = told.count;
            void *aligned = allocate_aligned(1024, 1024);
            sums[1] += told.count - before;
            release(i % 3 ? plain : aligned);
            release(i % 3 ? aligned : plain);
        }
    }
    for (int i = 0; i < 2; i++) {
        printf("%s: %.5f of truth\n", i ? "aligned" : "plain", sums[i] / SEEDS / ROUNDS);
        assert_true(fabs(sums[i] / SEEDS / ROUNDS - 1) < 0.01);
    }
    stop();
}

static size_t second_begun;
static double second_count;

static void second_begin(void *block, const struct sample *sample) {
    (void)block;
    second_begun++;
    second_count += sample->weight;
}

/* Two users, each as if it were alone. */
__attribute__((unused)) static void test_two_users(void **state) {
    (void)state;
    enum { CALLS = 2000000, SIZE = 64 };
    static struct sampler_user second = {.begin = second_begin};
    assert_true(sampler_start(&second, 1000));
    struct thread_cache *cache = start(3000);
    thread_sampler_seed(cache, 5);
    for (size_t i = 0; i < CALLS; i++) {
        release(allocate(SIZE));
    }
    double first_p = sampler_probability(SIZE, 3000);
    double second_p = sampler_probability(SIZE, 1000);
    assert_true(fabs((double)told.begun / CALLS / first_p - 1) < 0.015);
    assert_true(fabs((double)second_begun / CALLS / second_p - 1) < 0.015);
    assert_true(fabs(told.count / CALLS - 1) < 0.015);
    assert_true(fabs(second_count / CALLS - 1) < 0.015);
    sampler_stop(&second);
    stop();
}

static void test_blocks_behave(void **state) {
    (void)state;
    start(1); /* every block but the least likely */
    static const size_t sizes[] = {1, 24, 1000, 5000, 20000, 100000, 300000};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t size = sizes[i];
        char *block = allocate_zeroed(size, 0);
        assert_non_null(block);
        assert_true(told.live > 0);
        for (size_t k = 0; k < size; k++) {
            assert_int_equal(block[k], 0);
        }
        memset(block, 'x', size);
        assert_true(usable_size(block) >= size);
        assert_ptr_equal(reallocate(block, size), block);
        block = reallocate(block, size * 3);
        assert_true(usable_size(block) >= size * 3);
        for (size_t k = 0; k < size; k++) {
            assert_int_equal(block[k], 'x');
        }
        assert_true(expand(block, usable_size(block)));
        assert_false(expand(block, usable_size(block) + 1)); /* it would be another sample */
        block = reallocate(block, 1);
        assert_int_equal(*block, 'x');
        assert_null(arena_of(block));
        release(block);
        assert_int_equal(told.live, 0);
    }
    stop();
}

/* Random requests, with the user started, changed and stopped meanwhile; contents are kept, all
 * samples end, and nothing is left. */
static void walk(uint64_t seed, size_t steps) {
    struct random random = {seed};
    static _Thread_local char *held[HELD];
    static _Thread_local size_t lengths[HELD];
    memset(held, 0, sizeof held);
    for (size_t step = 0; step < steps; step++) {
        size_t i = random_below(&random, HELD);
        size_t size = random_below(&random, random_below(&random, 30) ? 1500 : 400000) + 1;
        if (!held[i]) {
            size_t alignment = random_below(&random, 4) ? 0 : (size_t)8 << random_below(&random, 9);
            held[i] = alignment ? allocate_aligned(size, alignment) : allocate(size);
        } else if (random_below(&random, 4) == 0) {
            CHECK(held[i][0] == (char)i && held[i][lengths[i] - 1] == (char)i, "torn");
            held[i] = reallocate(held[i], size);
        } else {
            CHECK(held[i][0] == (char)i && held[i][lengths[i] - 1] == (char)i, "torn");
            release(held[i]);
            held[i] = NULL;
            continue;
        }
        CHECK(held[i] != NULL, "no memory");
        lengths[i] = size;
        held[i][0] = (char)i;
        held[i][size - 1] = (char)i;
    }
    for (size_t i = 0; i < HELD; i++) {
        release(held[i]);
    }
}

static void walk_in_thread(unsigned number) {
    if (number == 0) {
        for (unsigned i = 0; i < 30; i++) {
            CHECK(sampler_start(&user, i % 3 ? 100 + 1000 * i : 16), "not started");
            walk(i, scaled(800));
            if (i % 4 == 0) {
                sampler_stop(&user);
            }
        }
    } else {
        walk(number, scaled(24000));
    }
}

static void test_threads(void **state) {
    (void)state;
    forget_sums();
    unit_run_threads(THREADS, walk_in_thread);
    assert_true(told.begun > 1000);
    assert_int_equal(told.live, 0);
    stop();
    thread_cache_flush(thread_cache_own());
    slab_trim();
    struct slab_totals totals = {0};
    slab_totals_add(&totals);
    assert_true(totals.used_blocks <= 8); /* the heap's own */
}

static size_t turn_size;
static _Atomic bool is_over;
static _Atomic size_t turns;

static void turn(unsigned number) {
    if (number == 0) {
        size_t before = atomic_load(&turns);
        while (atomic_load(&turns) < before + 1000) {}
        forget_sums();
        CHECK(sampler_start(&user, 256), "not started");
        before = atomic_load(&turns);
        while (atomic_load(&turns) < before + 10000) {}
        atomic_store(&is_over, true);
    } else {
        while (!atomic_load(&is_over)) { /* never a slow event by itself */
            prim_free(prim_malloc(turn_size));
            atomic_fetch_add(&turns, 1);
        }
    }
}

static void test_others_notice_soon(void **state) {
    (void)state;
    turn_size = 64;
    atomic_store(&is_over, false);
    unit_run_threads(2, turn);
    assert_true(told.begun > 100);
    stop();
}

static void begin_nothing(void *block, const struct sample *sample) {
    (void)block;
    (void)sample;
}

/* Also who pops medium blocks, and counts them up to a sample that is far. */
static void test_others_that_count_notice_soon(void **state) {
    (void)state;
    static struct sampler_user far = {.begin = begin_nothing};
    heap_ensure();
    assert_true(sampler_start(&far, (size_t)1 << 60));
    turn_size = 5000;
    atomic_store(&is_over, false);
    unit_run_threads(2, turn);
    assert_true(told.begun > 100);
    sampler_stop(&far);
    stop();
}

/* What lies in second bins is cached, not live. */
static void test_accounting(void **state) {
    (void)state;
    struct thread_cache *cache = start(1 << 20);
    for (size_t i = 0; i < 1000; i++) {
        blocks[i] = allocate(i % 2 ? 64 : 5000);
    }
    struct thread_cache_totals totals = {0};
    struct slab_totals slabs = {0};
    thread_cache_totals_add(&totals);
    slab_totals_add_class(&slabs, size_class_of(64));
    size_t samples = told.begun; /* at most so many came from elsewhere */
    size_t live = slabs.used_blocks - totals.blocks[size_class_of(64)];
    assert_in_range(live, 500 - samples, 500 + 8);
    slabs = (struct slab_totals){0};
    slab_totals_add_class(&slabs, size_class_of(5000));
    live = slabs.used_blocks - totals.blocks[size_class_of(5000)];
    assert_in_range(live, 500 - samples, 500);
    for (size_t i = 0; i < 1000; i++) {
        release(blocks[i]);
    }
    thread_cache_flush(cache);
    totals = (struct thread_cache_totals){0};
    thread_cache_totals_add(&totals);
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        assert_int_equal(totals.blocks[object_class], 0);
    }
    stop();
}

int main(void) {
    options.maintenance = 0;
    options.purge = 0; /* so that a seed means the same walk each time */
    const struct CMUnitTest tests[] = {
#ifndef PRIM_TEST_TSAN /* what one thread counts needs no second look */
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_unbiased),
        cmocka_unit_test(test_sites_mixed),
        cmocka_unit_test(test_two_users),
        cmocka_unit_test(test_unbiased_on_a_budget),
#endif
        cmocka_unit_test(test_blocks_behave),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_others_notice_soon),
        cmocka_unit_test(test_others_that_count_notice_soon),
        cmocka_unit_test(test_accounting),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
