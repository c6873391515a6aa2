/* fork while 200 threads allocate (T39): the child is a whole process that allocates, frees what
 * the parent left it, starts threads and forks again. A deadlock ends by a watchdog, with a
 * message. */
#include "support/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fork/load.h"
#include "support/names.h"

enum { LOAD_THREADS = 200, CHILD_SECONDS = 30, INHERITED = 200 };

static unsigned char *inherited[INHERITED];

static void allocate_inheritance(void) {
    for (size_t i = 0; i < INHERITED; i++) {
        size_t size = i * i + 1;
        inherited[i] = opaque(malloc(size));
        CHECK(inherited[i] != NULL, "no memory");
        fill_pattern(inherited[i], size, i);
    }
}

static void check_inheritance(void) {
    for (size_t i = 0; i < INHERITED; i++) {
        size_t size = i * i + 1;
        CHECK(check_pattern(inherited[i], size, i) == size, "block %zu of the parent changed", i);
    }
}

static void free_inheritance(void) {
    check_inheritance();
    for (size_t i = 0; i < INHERITED; i++) {
        free(inherited[i]);
    }
}

/* A child, its child and so on, each of which allocates before and after it forks. */
__attribute__((noreturn)) static void live_as_child(unsigned seed, unsigned generations) {
    pid_t child = 0;
    for (unsigned i = 0; child == 0; i++) {
        watchdog_start(CHILD_SECONDS, "a forked child");
        free_inheritance();
        allocate_inheritance();
        exercise_allocator(seed + i);
        exercise_threads(4, seed + i);
        if (i == generations) {
            break;
        }
        child = fork();
    }
    if (child != 0) {
        expect_success(child, "a grandchild");
    }
    exercise_allocator(seed + 2);
    check_inheritance();
    _exit(0);
}

static void test_t39_fork_under_load(void **state) {
    (void)state;
    load_start(LOAD_THREADS);
    allocate_inheritance();
    size_t forks = scaled(40);
    for (unsigned i = 0; i < forks; i++) {
        pid_t child = fork();
        if (child == 0) {
            live_as_child(i, i % 4 == 0 ? 3 : 0);
        }
        exercise_allocator(i);
        expect_success(child, "a child");
        check_inheritance();
    }
    load_stop();
    free_inheritance();
}

static void *fork_in_thread(void *argument) {
    for (unsigned i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            watchdog_start(CHILD_SECONDS, "a child of a thread");
            exercise_allocator((unsigned)(uintptr_t)argument + i);
            exercise_threads(2, i);
            exit(0);
        }
        expect_success(child, "a child of a thread");
    }
    return NULL;
}

/* Several threads fork at once, and the child's only thread is not the first one. */
static void test_t39_fork_from_many_threads(void **state) {
    (void)state;
    load_start(20);
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fork_in_thread, (void *)(i * 100)), 0);
    }
    for (size_t i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    load_stop();
}

/* Handlers of the program run before the allocator's in one order and after them in the other. */
static void allocate_in_handler(void) {
    exercise_allocator(5);
}

static void test_handlers_that_allocate(void **state) {
    (void)state;
    assert_int_equal(pthread_atfork(allocate_in_handler, allocate_in_handler, allocate_in_handler),
                     0);
    load_start(20);
    for (unsigned i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            watchdog_start(CHILD_SECONDS, "a child of a program with handlers");
            exercise_allocator(i);
            _exit(0);
        }
        expect_success(child, "a child of a program with handlers");
    }
    load_stop();
}

/* What threads of the parent cached when they vanished is lost to the child, but only that. */
static void test_children_do_not_grow(void **state) {
    (void)state;
    load_start(LOAD_THREADS);
    usleep(50000);
    size_t parent = resident_bytes();
    pid_t child = fork();
    if (child == 0) {
        watchdog_start(CHILD_SECONDS, "a child that allocates");
        for (unsigned i = 0; i < 20; i++) {
            exercise_allocator(i);
        }
        CHECK(resident_bytes() < parent + (64 << 20), "the child grew from %zu to %zu KiB",
              parent >> 10, resident_bytes() >> 10);
        _exit(0);
    }
    expect_success(child, "a child that allocates");
    load_stop();
}

int main(void) {
    expect_allocator();
    watchdog_start(120 + (unsigned)scaled(60), "fork/fork_under_load");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t39_fork_under_load),
        cmocka_unit_test(test_t39_fork_from_many_threads),
        cmocka_unit_test(test_children_do_not_grow),
        cmocka_unit_test(test_handlers_that_allocate),
    };
    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
