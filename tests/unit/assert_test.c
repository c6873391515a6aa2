#include "base/assert.h"

#include <signal.h>

#include "unit/unit.h"

static void true_condition(void) {
    PRIM_ASSERT(1 + 1 == 2);
}

static void false_condition(void) {
    PRIM_ASSERT(1 + 1 == 3);
}

static unsigned evaluations;

static void count_evaluation(void) {
    PRIM_ASSERT(++evaluations > 0);
}

static void test_conditions(void **state) {
    (void)state;
    assert_int_equal(unit_signal_of(true_condition), 0);
#ifdef PRIM_CHECKED
    assert_int_equal(unit_signal_of(false_condition), SIGABRT);
#else
    assert_int_equal(unit_signal_of(false_condition), 0);
#endif
}

static void test_release_evaluates_nothing(void **state) {
    (void)state;
    count_evaluation();
#ifdef PRIM_CHECKED
    assert_int_equal(evaluations, 1);
#else
    assert_int_equal(evaluations, 0);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_release_evaluates_nothing),
    };
    return cmocka_run_group_tests_name("assert", tests, NULL, NULL);
}
