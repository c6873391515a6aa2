#include "os/usage.h"

#include <sys/resource.h>
#include <time.h>

#include "unit/unit.h"

static void test_figures_are_the_kernels(void **state) {
    (void)state;
    struct rusage before;
    struct rusage after;
    static char pages[4 << 20];
    fill_pattern((unsigned char *)pages, sizeof pages, 1);
    getrusage(RUSAGE_SELF, &before);
    errno = ERRNO_MARK;
    struct usage usage = usage_now();
    assert_int_equal(errno, ERRNO_MARK);
    getrusage(RUSAGE_SELF, &after);
    assert_true(usage.minor_faults >= (uint64_t)before.ru_minflt);
    assert_true(usage.minor_faults <= (uint64_t)after.ru_minflt);
    assert_true(usage.major_faults <= (uint64_t)after.ru_majflt);
    assert_true(usage.user_ms >= (uint64_t)before.ru_utime.tv_sec * 1000);
    assert_true(usage.user_ms <= (uint64_t)(after.ru_utime.tv_sec + 1) * 1000);
    assert_true(usage.rss_peak_bytes >= sizeof pages);
    assert_true(usage.rss_bytes >= sizeof pages / 2);
    assert_true(usage.virtual_bytes >= usage.rss_bytes);
}

/* Since this program started, which nobody knows to the millisecond. */
static void test_elapsed_time_passes(void **state) {
    (void)state;
    struct usage first = usage_now();
    nanosleep(&(struct timespec){0, 30000000}, NULL);
    struct usage second = usage_now();
    assert_true(second.elapsed_ms >= first.elapsed_ms + 30);
    assert_true(first.elapsed_ms < 3600 * 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures_are_the_kernels),
        cmocka_unit_test(test_elapsed_time_passes),
    };
    return cmocka_run_group_tests_name("usage", tests, NULL, NULL);
}
