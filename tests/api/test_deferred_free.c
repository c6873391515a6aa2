/* prim_deferred_free_set: who is called when, and what it may do. */
#include "support/support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "primalloc.h"
#include "support/names.h"

enum { PARTS = 2000, PORTION = 10, THREADS = 4, ROUNDS = 30000 };

/* What a lazy program keeps: a list of blocks to be freed. */
struct lazy {
    _Atomic(void *) parts;
    _Atomic size_t calls, forced_calls, freed;
    _Atomic uint64_t last_heartbeat;
};

static _Thread_local int depth;

/* The whole list is taken, so that no part can be taken twice, and the rest put back. */
static void put(struct lazy *lazy, void *first, void *last) {
    void *next = atomic_load(&lazy->parts);
    do {
        *(void **)last = next;
    } while (!atomic_compare_exchange_weak(&lazy->parts, &next, first));
}

static bool free_portion(bool force, uint64_t heartbeat, void *context) {
    struct lazy *lazy = context;
    CHECK(++depth == 1, "called inside itself");
    atomic_fetch_add(&lazy->calls, 1);
    atomic_fetch_add(&lazy->forced_calls, force);
    atomic_store(&lazy->last_heartbeat, heartbeat);
    void *part = atomic_exchange(&lazy->parts, NULL);
    size_t count = 0;
    while (part && (force || count < PORTION)) {
        void *next = *(void **)part;
        free(part);
        part = next;
        count++;
    }
    if (part) {
        void *last = part;
        while (*(void **)last) {
            last = *(void **)last;
        }
        put(lazy, part, last);
    }
    for (size_t size = 8; size < 400000; size *= 3) {
        free(opaque(malloc(size))); /* it may allocate, in ways that take the slow path */
    }
    atomic_fetch_add(&lazy->freed, count);
    errno = EDOM;
    depth--;
    return count > 0;
}

static void test_portions(void **state) {
    (void)state;
    static struct lazy lazy;
    for (size_t i = 0; i < PARTS; i++) {
        void *part = malloc(100);
        put(&lazy, part, part);
    }
    static void *blocks[ROUNDS];
    prim_deferred_free_set(free_portion, &lazy);
    errno = 0;
    size_t called = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        size_t calls = lazy.calls;
        size_t freed = lazy.freed;
        blocks[i] = malloc(i % 64 == 0 ? 300000 : 500);
        CHECK(lazy.freed - freed <= PORTION * (lazy.calls - calls), "more than a portion");
        CHECK(lazy.calls - calls <= 1, "%zu calls at one allocation", lazy.calls - calls);
        called += lazy.calls - calls;
    }
    assert_int_equal(errno, 0);
    assert_true(called >= ROUNDS / 64);
    assert_int_equal(lazy.freed, PARTS);
    assert_int_equal(lazy.last_heartbeat, lazy.calls);
    assert_int_equal(lazy.forced_calls, 0);
    prim_deferred_free_set(NULL, NULL);
    size_t calls = lazy.calls;
    for (size_t i = 0; i < ROUNDS; i++) {
        free(blocks[i]);
    }
    free(opaque(malloc(1 << 20)));
    assert_int_equal(lazy.calls, calls);
}

static void *allocate_much(void *seed) {
    struct random random = {(uint64_t)(uintptr_t)seed};
    void *blocks[100] = {0};
    for (size_t i = 0; i < ROUNDS; i++) {
        void **block = &blocks[random_below(&random, 100)];
        free(*block);
        *block = malloc(random_below(&random, i % 100 == 0 ? 300000 : 3000));
    }
    for (size_t i = 0; i < 100; i++) {
        free(blocks[i]);
    }
    return NULL;
}

static void free_value(void *value) {
    free(value);
    free(opaque(malloc(300000))); /* at the thread's end, perhaps without a cache */
}

static void *allocate_to_the_end(void *key) {
    pthread_setspecific(*(pthread_key_t *)key, malloc(100));
    return allocate_much(key);
}

static void test_threads_at_work_and_at_their_end(void **state) {
    (void)state;
    static struct lazy lazy;
    pthread_key_t key;
    assert_int_equal(pthread_key_create(&key, free_value), 0);
    prim_deferred_free_set(free_portion, &lazy);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_to_the_end, &key), 0);
    }
    for (size_t i = 0; i < PARTS; i++) {
        void *part = malloc(i * 20 + 8);
        put(&lazy, part, part);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    while (lazy.freed < PARTS) {
        free(opaque(malloc(300000)));
    }
    prim_deferred_free_set(NULL, NULL);
    pthread_key_delete(key);
}

#ifndef PRIM_TEST_TSAN
/* Memory runs out, and the parts are what there is: all allocations succeed until they are gone. */
static void test_forced_when_memory_runs_out(void **state) {
    (void)state;
    static struct lazy lazy;
    enum { LIMIT_MIB = 64, PART_SIZE = 1 << 20, HALF = LIMIT_MIB / 2, MOST = 200 };
    assert_int_equal(prim_option_set_text("hard_limit", "64M"), 0);
    size_t parts = 0;
    for (void *part; parts < MOST && (part = malloc(PART_SIZE)); parts++) {
        put(&lazy, part, part);
    }
    assert_true(parts >= HALF && parts < MOST);
    void *more = malloc((size_t)PART_SIZE * HALF);
    assert_null(more);
    prim_deferred_free_set(free_portion, &lazy);
    atomic_exchange(&lazy.calls, 0);
    more = malloc((size_t)PART_SIZE * HALF);
    assert_non_null(more);
    assert_true(lazy.forced_calls >= 1);
    errno = 0;
    assert_null(malloc((size_t)PART_SIZE * MOST)); /* and it ends where nothing is left */
    assert_int_equal(errno, ENOMEM);
    prim_deferred_free_set(NULL, NULL);
    free(more);
    assert_int_equal(prim_option_set_text("hard_limit", "0"), 0);
}

static bool free_if_forced(bool force, uint64_t heartbeat, void *context) {
    return force && free_portion(true, heartbeat, context);
}

/* Every other small block is the program's to free: no page comes free, but blocks do. */
static void test_forced_frees_small_blocks(void **state) {
    (void)state;
    static struct lazy lazy;
    static void *kept[100000];
    enum { MOST = sizeof kept / sizeof *kept, SIZE = 1000 };
    assert_int_equal(prim_option_set_text("hard_limit", "64M"), 0);
    size_t count = 0;
    while (count < MOST && (kept[count] = malloc(SIZE))) {
        count++;
    }
    assert_true(count > 1000 && count < MOST);
    for (size_t i = 1; i < count; i += 2) {
        put(&lazy, kept[i], kept[i]);
        kept[i] = NULL;
    }
    assert_null(opaque(malloc(SIZE)));
    prim_deferred_free_set(free_if_forced, &lazy);
    void *more = malloc(SIZE);
    assert_non_null(more);
    assert_int_equal(lazy.freed, count / 2);
    prim_deferred_free_set(NULL, NULL);
    free(more);
    for (size_t i = 0; i < count; i += 2) {
        free(kept[i]);
    }
    assert_int_equal(prim_option_set_text("hard_limit", "0"), 0);
}

/* What the function allocates meanwhile is sampled, as the block is for which it makes room. */
static bool free_one_and_allocate(bool force, uint64_t heartbeat, void *context) {
    struct lazy *lazy = context;
    void *part = force ? atomic_load(&lazy->parts) : NULL;
    (void)heartbeat;
    if (part) {
        atomic_store(&lazy->parts, *(void **)part);
        free(part);
        for (size_t i = 0; i <= lazy->freed % 7; i++) {
            free(opaque(malloc(64)));
        }
        lazy->freed++;
    }
    return part;
}

static void test_forced_while_it_is_profiled(void **state) {
    (void)state;
    static struct lazy lazy;
    enum { PARTS_KEPT = 40, PART_SIZE = 1 << 20 };
    assert_int_equal(prim_option_set_text("hard_limit", "64M"), 0);
    for (int i = 0; i < PARTS_KEPT; i++) {
        void *part = malloc(PART_SIZE);
        put(&lazy, part, part);
    }
    prim_deferred_free_set(free_one_and_allocate, &lazy);
    assert_int_equal(prim_profile_start(",rate=100"), 0);
    void *blocks = NULL;
    for (void *block; (block = malloc(64)); blocks = block) {
        *(void **)block = blocks;
    }
    prim_profile_stop();
    prim_deferred_free_set(NULL, NULL);
    assert_int_equal(lazy.freed, PARTS_KEPT);
    while (blocks) {
        void *next = *(void **)blocks;
        free(blocks);
        blocks = next;
    }
    assert_int_equal(prim_option_set_text("hard_limit", "0"), 0);
}
#endif

int main(void) {
    expect_allocator();
    watchdog_start(100, "deferred free");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_portions),
        cmocka_unit_test(test_threads_at_work_and_at_their_end),
#ifndef PRIM_TEST_TSAN
        cmocka_unit_test(test_forced_when_memory_runs_out),
        cmocka_unit_test(test_forced_frees_small_blocks),
        cmocka_unit_test(test_forced_while_it_is_profiled),
#endif
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    watchdog_stop();
    return failures;
}
