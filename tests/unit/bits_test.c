#include "base/bits.h"

#include "unit/unit.h"

static void test_highest_and_lowest(void **state) {
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        size_t power = (size_t)1 << bit;
        assert_int_equal(bits_highest(power), bit);
        assert_int_equal(bits_highest(power | 1), bit);
        assert_int_equal(bits_highest(power | (power - 1)), bit);
        assert_int_equal(bits_lowest(power), bit);
        assert_int_equal(bits_lowest(~(power - 1)), bit);
        assert_int_equal(bits_lowest(power | (uint64_t)1 << 63), bit);
    }
}

static void test_count(void **state) {
    (void)state;
    assert_int_equal(bits_count(0), 0);
    assert_int_equal(bits_count(UINT64_MAX), 64);
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_int_equal(bits_count((uint64_t)1 << bit), 1);
        assert_int_equal(bits_count(((uint64_t)1 << bit) - 1), bit);
    }
}

static void test_powers_of_two(void **state) {
    (void)state;
    assert_false(bits_is_power_of_two(0));
    assert_true(bits_is_power_of_two(1));
    assert_true(bits_is_power_of_two(2));
    assert_false(bits_is_power_of_two(SIZE_MAX));
    for (unsigned bit = 2; bit < 64; bit++) {
        size_t power = (size_t)1 << bit;
        assert_true(bits_is_power_of_two(power));
        assert_false(bits_is_power_of_two(power - 1));
        assert_false(bits_is_power_of_two(power + 1));
    }
}

static void test_rounding(void **state) {
    (void)state;
    for (size_t unit = 1; unit <= 64; unit *= 2) {
        for (size_t value = 0; value < 300; value++) {
            assert_int_equal(bits_round_down(value, unit), value / unit * unit);
            assert_int_equal(bits_round_up(value, unit), (value + unit - 1) / unit * unit);
        }
    }
    assert_int_equal(bits_round_down(SIZE_MAX, 4096), SIZE_MAX - 4095);
    assert_int_equal(bits_round_up(SIZE_MAX - 4095, 4096), SIZE_MAX - 4095);
    assert_int_equal(bits_round_up(SIZE_MAX - 4094, 4096), 0);
}

static void test_limits(void **state) {
    (void)state;
    assert_int_equal(bits_min(3, 5), 3);
    assert_int_equal(bits_min(5, 3), 3);
    assert_int_equal(bits_max(3, 5), 5);
    assert_int_equal(bits_max(SIZE_MAX, 0), SIZE_MAX);
    assert_int_equal(bits_clamp(1, 2, 4), 2);
    assert_int_equal(bits_clamp(3, 2, 4), 3);
    assert_int_equal(bits_clamp(9, 2, 4), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_highest_and_lowest),
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
