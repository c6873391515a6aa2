/* Threads that start, allocate and exit leave nothing behind (T44): memory does not grow with their
 * number. PRIM_TEST_SCALE=50 makes it a million threads. */
#include "support/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/names.h"

enum { AT_ONCE = 20 };

static void *allocate_once(void *argument) {
    (void)argument;
    free(opaque(malloc(100)));
    return NULL;
}

/* Uses many sizes, so that its cache holds something of each. */
static void *allocate_many_sizes(void *argument) {
    struct random random = {(uintptr_t)argument};
    void *blocks[300];
    for (size_t i = 0; i < 300; i++) {
        blocks[i] = opaque(malloc(random_size(&random, 50000)));
        CHECK(blocks[i] != NULL, "no memory");
        *(volatile char *)blocks[i] = 1;
    }
    for (size_t i = 0; i < 300; i++) {
        free(blocks[i]);
    }
    return NULL;
}

/* Leaves the freeing to the thread that joins it. */
static void *allocate_and_return(void *argument) {
    (void)argument;
    void *block = opaque(malloc(3000));
    CHECK(block != NULL, "no memory");
    memset(block, 1, 3000);
    return block;
}

/* A thread that never allocates, only frees. */
static void *free_only(void *argument) {
    free(argument);
    return NULL;
}

static void run(void *(*body)(void *), size_t count) {
    for (size_t done = 0; done < count; done += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++) {
            void *argument = (void *)(uintptr_t)(done + i + 1);
            if (body == free_only) {
                argument = opaque(malloc(200));
            }
            CHECK(pthread_create(&threads[i], NULL, body, argument) == 0, "no thread");
        }
        for (size_t i = 0; i < AT_ONCE; i++) {
            void *result = NULL;
            pthread_join(threads[i], &result);
            free(result);
        }
    }
}

/* What threads leave behind would grow by each run; what the process, or a tool that it runs under,
 * has got for good grows once. */
static void check_no_growth(void *(*body)(void *), size_t count, size_t tolerance) {
    run(body, 200);
    size_t mapped_before = mapped_bytes();
    size_t before;
    size_t after;
    int runs = 0;
    do {
        before = resident_bytes();
        run(body, count);
        after = resident_bytes();
    } while (after >= before + tolerance && ++runs < 3);
    CHECK(runs < 3, "resident memory grew from %zu to %zu KiB in the third run of %zu threads",
          before >> 10, after >> 10, count);
    CHECK(mapped_bytes() < mapped_before + (64 << 20), "address space grew by %zu KiB",
          (mapped_bytes() - mapped_before) >> 10);
}

static void test_500_threads_of_many_sizes(void **state) {
    (void)state;
    check_no_growth(allocate_many_sizes, 500, 4 << 20);
}

static void test_t44_threads_that_allocate_once(void **state) {
    (void)state;
    check_no_growth(allocate_once, scaled(20000), 1 << 20);
}

static void test_threads_whose_blocks_outlive_them(void **state) {
    (void)state;
    check_no_growth(allocate_and_return, scaled(4000), 2 << 20);
}

static void test_t44_threads_that_only_free(void **state) {
    (void)state;
    check_no_growth(free_only, scaled(4000), 2 << 20);
}

int main(void) {
    expect_allocator();
    watchdog_start(120 + (unsigned)scaled(10), "threads/short_threads");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_500_threads_of_many_sizes),
        cmocka_unit_test(test_t44_threads_that_allocate_once),
        cmocka_unit_test(test_threads_whose_blocks_outlive_them),
        cmocka_unit_test(test_t44_threads_that_only_free),
    };
    return cmocka_run_group_tests_name("short threads", tests, NULL, NULL);
}
