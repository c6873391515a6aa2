/* Frees and allocations at the end of a process (T43): in handlers, in destructors, while other
 * threads go on, by exit, quick_exit, pthread_exit of main, and a return from main. Each way runs
 * in a child. */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/names.h"

enum { BLOCKS = 500, EXPECTED_STATUS = 42 };
static void *blocks[BLOCKS];

static void allocate_blocks(void) {
    struct random random = {3};
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = opaque(malloc(random_size(&random, 300000)));
        CHECK(blocks[i] != NULL, "no memory");
    }
}

static int rounds_left = 5;

static void replace_blocks(void) {
    struct random random = {4};
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = opaque(calloc(1, random_size(&random, 30000)));
        CHECK(blocks[i] != NULL, "no memory in an exit handler");
    }
    if (rounds_left-- > 0 && atexit(replace_blocks) != 0) {
        fputs("no room for another handler\n", stderr);
    }
}

static void free_blocks(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void on_exit_handler(int status, void *argument) {
    CHECK(status == EXPECTED_STATUS, "status is %d", status);
    free(argument);
    free(opaque(malloc(100)));
}

__attribute__((destructor)) static void last_destructor(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = opaque(malloc(i));
    }
}

static void *churn_for_ever(void *argument) {
    struct random random = {(uintptr_t)argument};
    while (random.state != 0) {
        free(opaque(malloc(random_size(&random, 100000))));
    }
    return NULL;
}

static void start_load(void) {
    for (uintptr_t i = 1; i <= 8; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, churn_for_ever, (void *)i) == 0, "no thread");
        pthread_detach(thread);
    }
}

static void leave_by_exit(void) {
    on_exit(on_exit_handler, malloc(50));
    exit(EXPECTED_STATUS);
}

static void leave_by_exit_under_load(void) {
    start_load();
    usleep(20000);
    exit(EXPECTED_STATUS);
}

static void leave_by_quick_exit(void) {
    at_quick_exit(free_blocks);
    quick_exit(EXPECTED_STATUS);
}

static void *exit_from_thread(void *argument) {
    (void)argument;
    free(opaque(malloc(1000)));
    exit(EXPECTED_STATUS);
}

static void leave_by_a_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, exit_from_thread, NULL) == 0, "no thread");
    pthread_exit(NULL);
}

static void leave_by_exit_of_a_late_handler(void) {
    atexit(replace_blocks);
    exit(EXPECTED_STATUS);
}

static void check_child(void (*leave)(void)) {
    for (int i = 0; i < 10; i++) {
        fflush(stdout);
        fflush(stderr);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            watchdog_start(20, "a child that exits");
            allocate_blocks();
            atexit(free_blocks);
            leave();
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXPECTED_STATUS);
    }
}

static void test_t43_exit(void **state) {
    (void)state;
    check_child(leave_by_exit);
}

static void test_t43_exit_under_load(void **state) {
    (void)state;
    check_child(leave_by_exit_under_load);
}

static void test_t43_quick_exit(void **state) {
    (void)state;
    check_child(leave_by_quick_exit);
}

static void test_t43_exit_from_a_thread_after_main_left(void **state) {
    (void)state;
    check_child(leave_by_a_thread);
}

static void test_a_handler_that_adds_handlers(void **state) {
    (void)state;
    check_child(leave_by_exit_of_a_late_handler);
}

int main(void) {
    expect_allocator();
    watchdog_start(120, "threads/exit_handlers");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t43_exit),
        cmocka_unit_test(test_t43_exit_under_load),
        cmocka_unit_test(test_t43_quick_exit),
        cmocka_unit_test(test_t43_exit_from_a_thread_after_main_left),
        cmocka_unit_test(test_a_handler_that_adds_handlers),
    };
    return cmocka_run_group_tests_name("the end of a process", tests, NULL, NULL);
}
