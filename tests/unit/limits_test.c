#include "pages/limits.h"

#include "unit/unit.h"

static void test_map_budget(void **state) {
    (void)state;
    unsigned long count = 65530;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file) {
        assert_int_equal(fscanf(file, "%lu", &count), 1);
        fclose(file);
    }
    errno = ERRNO_MARK;
    assert_int_equal(limits_map_budget(), count / 4);
    assert_int_equal(limits_map_budget(), count / 4);
    assert_int_equal(errno, ERRNO_MARK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_budget),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
