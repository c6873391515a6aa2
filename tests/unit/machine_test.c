#include "os/machine.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "unit/unit.h"

static void test_processor_count(void **state) {
    (void)state;
    cpu_set_t allowed;
    errno = ERRNO_MARK;
    unsigned count = machine_processor_count();
    assert_int_equal(errno, ERRNO_MARK);
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    assert_int_equal(count, CPU_COUNT(&allowed));
    assert_int_equal(machine_processor_count(), count);
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
        cmocka_unit_test(test_processor_count),
        cmocka_unit_test(test_processor),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
