/* Threads under load. The same source runs on the standard names and, under ThreadSanitizer, on the
 * prim_ names: there any unordered access inside the allocator is reported. */
#include "support/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/names.h"

enum { THREADS = 6, RING = 256 };

static void run_threads(void *(*body)(void *), size_t count) {
    pthread_t threads[64];
    for (size_t i = 0; i < count; i++) {
        CHECK(pthread_create(&threads[i], NULL, body, (void *)(uintptr_t)(i + 1)) == 0,
              "cannot start thread %zu", i);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
}

struct stamped {
    size_t size;
    uint64_t tag;
};

/* A block that carries what is needed to check it, so that any thread can. */
static struct stamped *make(struct random *random, size_t largest) {
    size_t size = sizeof(struct stamped) + random_size(random, largest);
    struct stamped *block = opaque(malloc(size));
    CHECK(block != NULL, "no memory for %zu bytes", size);
    block->size = size;
    block->tag = random_next(random);
    size_t length = size - sizeof *block;
    fill_pattern(block + 1, length < 256 ? length : 256, block->tag);
    return block;
}

static void check_and_free(struct stamped *block) {
    size_t length = block->size - sizeof *block;
    length = length < 256 ? length : 256;
    size_t good = check_pattern(block + 1, length, block->tag);
    CHECK(good == length, "block %p of %zu bytes changed at offset %zu", (void *)block, block->size,
          good);
    free(block);
}

/* Producers leave blocks in a ring, consumers free them: all frees are remote. */
static _Atomic(struct stamped *) ring[RING];

static void *produce_and_consume(void *argument) {
    struct random random = {(uintptr_t)argument};
    bool produces = (uintptr_t)argument % 2 == 0;
    size_t steps = scaled(60000);
    for (size_t i = 0; i < steps; i++) {
        struct stamped *fresh = produces ? make(&random, 2000) : NULL;
        struct stamped *old = atomic_exchange(&ring[random_below(&random, RING)], fresh);
        if (old != NULL) {
            check_and_free(old);
        }
    }
    return NULL;
}

static void test_producers_and_consumers(void **state) {
    (void)state;
    run_threads(produce_and_consume, THREADS);
    for (size_t i = 0; i < RING; i++) {
        struct stamped *rest = atomic_exchange(&ring[i], NULL);
        if (rest != NULL) {
            check_and_free(rest);
        }
    }
}

static void churn(struct random *random, size_t steps, size_t largest) {
    enum { LIVE = 200 };
    struct stamped *live[LIVE] = {NULL};
    for (size_t i = 0; i < steps; i++) {
        size_t slot = random_below(random, LIVE);
        if (live[slot] != NULL) {
            check_and_free(live[slot]);
        }
        live[slot] = make(random, largest);
    }
    for (size_t i = 0; i < LIVE; i++) {
        if (live[i] != NULL) {
            check_and_free(live[i]);
        }
    }
}

static void *churn_small(void *argument) {
    struct random random = {(uintptr_t)argument};
    churn(&random, scaled(30000), 1000);
    return NULL;
}

static void *churn_all_sizes(void *argument) {
    struct random random = {(uintptr_t)argument};
    churn(&random, scaled(8000), 8 << 20);
    return NULL;
}

static void test_small_sizes(void **state) {
    (void)state;
    run_threads(churn_small, THREADS);
}

static void test_all_sizes(void **state) {
    (void)state;
    run_threads(churn_all_sizes, THREADS);
}

/* Threads that live for a few hundred steps and leave their caches behind. */
static void *short_life(void *argument) {
    struct random random = {(uintptr_t)argument};
    churn(&random, 300, 30000);
    return NULL;
}

static void *start_short_lives(void *argument) {
    size_t rounds = scaled(15);
    for (size_t i = 0; i < rounds; i++) {
        pthread_t threads[4];
        for (size_t j = 0; j < 4; j++) {
            uintptr_t seed = (uintptr_t)argument * 100000 + i * 4 + j;
            CHECK(pthread_create(&threads[j], NULL, short_life, (void *)seed) == 0, "no thread");
        }
        for (size_t j = 0; j < 4; j++) {
            pthread_join(threads[j], NULL);
        }
    }
    return NULL;
}

static void test_threads_that_come_and_go(void **state) {
    (void)state;
    run_threads(start_short_lives, 3);
}

static void *resize_blocks(void *argument) {
    struct random random = {(uintptr_t)argument};
    size_t rounds = scaled(400);
    for (size_t i = 0; i < rounds; i++) {
        size_t size = 0;
        unsigned char *block = NULL;
        while (size < 400000) {
            size_t larger = size + 2 + random_below(&random, size + 100);
            block = opaque(realloc(block, larger));
            CHECK(block != NULL, "no memory for %zu bytes", larger);
            CHECK(size == 0 || (block[0] == 7 && block[size - 1] == 9), "realloc lost bytes");
            block[0] = 7;
            block[larger - 1] = 9;
            size = larger;
        }
        block = opaque(realloc(block, 100));
        CHECK(block != NULL && block[0] == 7, "realloc lost the first byte");
        free(block);
    }
    return NULL;
}

static void test_growing_blocks(void **state) {
    (void)state;
    run_threads(resize_blocks, THREADS);
}

static atomic_bool stop_watching;

/* What monitoring threads do beside the load. */
static void *watch(void *argument) {
    (void)argument;
    FILE *sink = fopen("/dev/null", "w");
    while (!atomic_load(&stop_watching)) {
        malloc_trim(0);
        struct mallinfo2 info = mallinfo2();
        CHECK(info.arena + info.hblkhd > 0, "no memory is known");
        if (sink != NULL) {
            malloc_info(0, sink);
        }
        usleep(500);
    }
    if (sink != NULL) {
        fclose(sink);
    }
    return NULL;
}

static void test_trim_and_statistics_during_load(void **state) {
    (void)state;
    atomic_store(&stop_watching, false);
    pthread_t watcher;
    assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
    run_threads(churn_all_sizes, THREADS - 2);
    atomic_store(&stop_watching, true);
    pthread_join(watcher, NULL);
}

static void *aligned_load(void *argument) {
    struct random random = {(uintptr_t)argument};
    size_t steps = scaled(10000);
    for (size_t i = 0; i < steps; i++) {
        size_t alignment = (size_t)1 << random_below(&random, 15);
        unsigned char *block = opaque(aligned_alloc(alignment, random_size(&random, 100000) + 1));
        CHECK(block != NULL && (uintptr_t)block % alignment == 0, "block %p is not aligned to %zu",
              (void *)block, alignment);
        unsigned char *zeros = opaque(calloc(1, 100));
        CHECK(zeros != NULL && zeros[0] == 0 && zeros[99] == 0, "calloc left bytes");
        memset(zeros, 1, 100);
        block[0] = 1;
        free(block);
        free(zeros);
    }
    return NULL;
}

static void test_aligned_and_zeroed(void **state) {
    (void)state;
    run_threads(aligned_load, THREADS);
}

int main(void) {
    expect_allocator();
    watchdog_start(300 + (unsigned)scaled(100), "threads/stress");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_producers_and_consumers),
        cmocka_unit_test(test_small_sizes),
        cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_threads_that_come_and_go),
        cmocka_unit_test(test_growing_blocks),
        cmocka_unit_test(test_trim_and_statistics_during_load),
        cmocka_unit_test(test_aligned_and_zeroed),
    };
    return cmocka_run_group_tests_name("threads under load", tests, NULL, NULL);
}
