#include "os/vdso.h"

#include <sys/auxv.h>
#include <time.h>

#include "unit/unit.h"

typedef int clock_function(clockid_t clock, struct timespec *now);

static void test_clock(void **state) {
    (void)state;
    if (getauxval(AT_SYSINFO_EHDR) == 0) {
        skip(); /* an emulator */
    }
    clock_function *read = (clock_function *)vdso_function("clock_gettime");
    assert_non_null(read);
    struct timespec now = {0, 0};
    struct timespec before;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &before);
    assert_int_equal(read(CLOCK_MONOTONIC_COARSE, &now), 0);
    assert_true(now.tv_sec == before.tv_sec || now.tv_sec == before.tv_sec + 1);
}

static void test_unknown_names(void **state) {
    (void)state;
    assert_null(vdso_function("of_no_kernel"));
    assert_null(vdso_function(""));
    assert_null(vdso_function("clock_gettim"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_unknown_names),
    };
    return cmocka_run_group_tests_name("vdso", tests, NULL, NULL);
}
