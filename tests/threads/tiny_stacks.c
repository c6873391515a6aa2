/* The slow paths need little stack (T47): threads with the smallest stack that the system allows,
 * and a measurement of how deep the allocator goes. */
#include "support/support.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/names.h"

enum { STACK = 64 << 10, PAINT = 0x5c, LIMIT = 4096 };

/* Every door of the allocator, from a thread that has never allocated. */
static void allocate_everything(void) {
    static _Thread_local void *blocks[64];
    for (size_t size = 1; size < (size_t)64 << 20; size *= 3) {
        for (size_t i = 0; i < 64; i++) {
            blocks[i] = opaque(i % 3 == 0 ? calloc(1, size > 1 << 20 ? 1 : size) : malloc(size));
        }
        for (size_t i = 0; i < 64; i++) {
            blocks[i] = opaque(realloc(blocks[i], (size > 1 << 20 ? 1 : size) * 2));
        }
        for (size_t i = 0; i < 64; i++) {
            free(blocks[i]);
        }
    }
    free(opaque(aligned_alloc(1 << 16, 100)));
    free(opaque(memalign(64, 5 << 20)));
    malloc_trim(0);
    mallinfo2();
}

static void *allocate_in_thread(void *argument) {
    (void)argument;
    allocate_everything();
    return NULL;
}

static void test_t47_smallest_stack(void **state) {
    (void)state;
    size_t smallest = (size_t)sysconf(_SC_THREAD_STACK_MIN);
    if (smallest < (size_t)PTHREAD_STACK_MIN) {
        smallest = (size_t)PTHREAD_STACK_MIN;
    }
    for (int i = 0; i < 20; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        assert_int_equal(pthread_attr_setstacksize(&attributes, smallest), 0);
        assert_int_equal(pthread_create(&thread, &attributes, allocate_in_thread, NULL), 0);
        pthread_join(thread, NULL);
        pthread_attr_destroy(&attributes);
    }
}

static unsigned char *alternate_stack;
static void *volatile entry_frame;

static void handle_signal(int signal_number) {
    (void)signal_number;
    entry_frame = __builtin_frame_address(0);
    allocate_everything();
}

/* Runs the allocator on a painted stack and looks how far the paint is gone. */
static void test_t47_depth(void **state) {
    (void)state;
    alternate_stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(alternate_stack, MAP_FAILED);
    memset(alternate_stack, PAINT, STACK);
    stack_t stack = {.ss_sp = alternate_stack, .ss_size = STACK};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle_signal;
    action.sa_flags = SA_ONSTACK;
    assert_int_equal(sigaltstack(&stack, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    raise(SIGUSR1);
    size_t untouched = 0;
    while (alternate_stack[untouched] == PAINT) {
        untouched++;
    }
    size_t depth = (size_t)((unsigned char *)entry_frame - (alternate_stack + untouched));
    printf("depth of the allocator: %zu bytes of stack\n", depth);
    assert_true(depth <= LIMIT);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
}

int main(void) {
    expect_allocator();
    watchdog_start(60, "threads/tiny_stacks");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t47_smallest_stack),
        cmocka_unit_test(test_t47_depth),
    };
    return cmocka_run_group_tests_name("tiny stacks", tests, NULL, NULL);
}
