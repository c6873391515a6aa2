#include "os/machine.h"

#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/cgroup.h"
#include "os/kernel.h"
#include "primalloc.h"
#include "unit/unit.h"

static unsigned pretended_processors; /* 0: what the kernel says */
static unsigned affinity_questions;

static long forward(long number, const long *words) {
    return syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* In place of the library's: a machine of any size, as the kernel would describe it. As that one
 * does, it takes six arguments, however many there are, which AddressSanitizer would not have. */
__attribute__((no_sanitize("address"))) long kernel_call(long number, ...) {
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (size_t i = 0; i < ARRAY_LENGTH(arguments); i++) {
        arguments[i] = va_arg(list, long);
    }
    va_end(list);
    if (number != SYS_sched_getaffinity) {
        return forward(number, arguments);
    }
    affinity_questions++;
    if (pretended_processors == 0) {
        return forward(number, arguments);
    }
    size_t bytes = (pretended_processors + 63) / 64 * 8;
    if ((size_t)arguments[1] < bytes) {
        errno = EINVAL;
        return -1;
    }
    unsigned char *mask = (unsigned char *)arguments[2];
    memset(mask, 0, bytes);
    for (unsigned i = 0; i < pretended_processors; i++) {
        mask[i / 8] |= (unsigned char)(1 << i % 8);
    }
    return (long)bytes;
}

static void expect_processors(unsigned allowed) {
    unsigned quota = cgroup_processor_count("");
    bool asks = allowed > 4; /* a quota of few is not asked for */
    unsigned expected = asks && quota && quota < allowed ? quota : allowed;
    errno = ERRNO_MARK;
    unsigned count = machine_processor_count();
    CHECK(count == expected, "%u processors, not %u", count, expected);
    CHECK(machine_processor_count() == expected, "not the same again");
    CHECK(errno == ERRNO_MARK, "errno is %d", errno);
}

static void count_on_a_large_machine(void) {
    pretended_processors = 5000;
    expect_processors(5000);
}

static void count_on_a_small_machine(void) {
    pretended_processors = 1;
    expect_processors(1);
}

/* Each in a child, because the number is asked for once. */
static void test_other_machines(void **state) {
    (void)state;
    assert_int_equal(unit_signal_of(count_on_a_large_machine), 0);
    assert_int_equal(unit_signal_of(count_on_a_small_machine), 0);
}

static void allocate_some(unsigned number) {
    for (size_t i = 0; i < 1000; i++) {
        prim_free(opaque(prim_malloc(i * 10 + number)));
    }
}

/* A process of one thread never asks how many processors there are, others do so once. */
static void test_the_question_is_put_late(void **state) {
    (void)state;
    assert_int_equal(affinity_questions, 0);
    allocate_some(0);
    assert_int_equal(affinity_questions, 0);
    unit_run_threads(4, allocate_some);
    assert_int_equal(affinity_questions, 1);
    unit_run_threads(4, allocate_some);
    assert_int_equal(affinity_questions, 1);
}

static void test_processor_count(void **state) {
    (void)state;
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    expect_processors((unsigned)CPU_COUNT(&allowed));
}

/* Programs pin their workers, of which one may be the first to ask. */
static void count_on_one_processor(unsigned number) {
    cpu_set_t one;
    (void)number;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "cannot be pinned");
    machine_processor_count();
}

static void ask_in_a_pinned_thread(void) {
    cpu_set_t allowed;
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "no affinity");
    unit_run_threads(1, count_on_one_processor);
    expect_processors((unsigned)CPU_COUNT(&allowed));
}

static void test_a_pinned_thread_asks(void **state) {
    (void)state;
    assert_int_equal(unit_signal_of(ask_in_a_pinned_thread), 0);
}

/* A thread that may run on one processor only is told that one. */
static void test_processor(void **state) {
    (void)state;
    cpu_set_t allowed;
    unsigned processor;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    if (syscall(SYS_getcpu, &processor, NULL, NULL) != 0) {
        skip(); /* an emulator without that system call */
    }
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &allowed)) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
            sched_yield();
            errno = ERRNO_MARK;
            assert_int_equal(machine_processor(), i);
            assert_int_equal(errno, ERRNO_MARK);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof allowed, &allowed), 0);
}

static void test_clock(void **state) {
    (void)state;
    errno = ERRNO_MARK;
    uint64_t start = machine_clock_ms();
    uint64_t last = start;
    for (int i = 0; i < 10; i++) {
        struct timespec pause = {0, 10000000};
        nanosleep(&pause, NULL);
        uint64_t now = machine_clock_ms();
        assert_true(now >= last);
        last = now;
    }
    assert_true(last - start >= 80);
    assert_true(last - start < 60000);
    assert_int_equal(errno, ERRNO_MARK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_machines),
        cmocka_unit_test(test_the_question_is_put_late),
        cmocka_unit_test(test_a_pinned_thread_asks),
        cmocka_unit_test(test_processor_count),
        cmocka_unit_test(test_processor),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
