/* The other ways to start a process while threads allocate (T40, T42): popen, system, posix_spawn,
 * vfork, a clone that shares memory, daemon. */
#include "support/support.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fork/load.h"
#include "support/names.h"

enum { ROUNDS = 10, LOAD_THREADS = 50, CLONE_STACK = 256 << 10 };
extern char **environ;

static void test_popen(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        FILE *pipe = popen("echo hello; cat /proc/self/status | wc -l", "r");
        assert_non_null(pipe);
        char *line = NULL;
        size_t capacity = 0;
        assert_true(getline(&line, &capacity, pipe) > 0);
        assert_string_equal(line, "hello\n");
        assert_true(getline(&line, &capacity, pipe) > 0);
        assert_int_equal(pclose(pipe), 0);
        free(line);
    }
}

static void test_system(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(WEXITSTATUS(system("x=$(echo 7); exit $x")), 7);
    }
}

static void test_t40_posix_spawn(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        char *const arguments[] = {"sh", "-c", "echo spawned; exit 0", NULL};
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        pid_t child = 0;
        assert_int_equal(posix_spawnp(&child, "sh", &actions, NULL, arguments, environ), 0);
        posix_spawn_file_actions_destroy(&actions);
        expect_success(child, "a spawned process");
    }
}

static void run_true(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    expect_success(child, "a process after vfork");
}

static void test_t40_vfork(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        run_true();
        exercise_allocator((unsigned)i);
    }
}

/* Shares this process's memory while its parent waits, as vfork does, and allocates all the same.
 * */
static int allocate_in_shared_memory(void *argument) {
    (void)argument;
    char name[64];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "PRIM_TEST_CLONE_%d", i);
        setenv(name, "set by a child that shares the parent's memory", 1);
        free(opaque(malloc((size_t)i * 100)));
    }
    return 0;
}

static void test_t40_clone_with_shared_memory(void **state) {
    (void)state;
    char *stack = mmap(NULL, CLONE_STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    assert_ptr_not_equal(stack, MAP_FAILED);
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = clone(allocate_in_shared_memory, stack + CLONE_STACK,
                            CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        expect_success(child, "a clone with shared memory");
        exercise_allocator((unsigned)i);
    }
    assert_non_null(getenv("PRIM_TEST_CLONE_99"));
    munmap(stack, CLONE_STACK);
}

static void test_t42_daemon(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            watchdog_start(30, "a process that becomes a daemon");
            CHECK(daemon(1, 1) == 0, "daemon failed");
            watchdog_start(30, "a daemon");
            exercise_allocator((unsigned)i);
            exercise_threads(2, 9);
            CHECK(write(ends[1], "done", 4) == 4, "the parent is gone");
            _exit(0);
        }
        close(ends[1]);
        expect_success(child, "the parent of a daemon");
        char text[8] = {0};
        assert_int_equal(read(ends[0], text, sizeof text), 4);
        assert_string_equal(text, "done");
        close(ends[0]);
    }
}

static int start_load(void **state) {
    (void)state;
    load_start(LOAD_THREADS);
    return 0;
}

static int stop_load(void **state) {
    (void)state;
    load_stop();
    return 0;
}

int main(void) {
    expect_allocator();
    watchdog_start(120, "fork/spawn");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_popen),
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_t40_posix_spawn),
        cmocka_unit_test(test_t40_vfork),
        cmocka_unit_test(test_t40_clone_with_shared_memory),
        cmocka_unit_test(test_t42_daemon),
    };
    return cmocka_run_group_tests_name("starting processes", tests, start_load, stop_load);
}
