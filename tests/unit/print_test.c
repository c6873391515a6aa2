#include "base/print.h"

#include "unit/unit.h"

/* What a number looks like when libc prints it, and when we do. */
static void check_number(uint64_t value) {
    char expected[32];
    char text[32] = {0};
    snprintf(expected, sizeof expected, "%llu", (unsigned long long)value);
    struct print decimal = print_to(text, sizeof text);
    print_decimal(&decimal, value);
    assert_int_equal(decimal.length, strlen(expected));
    assert_memory_equal(text, expected, decimal.length);

    snprintf(expected, sizeof expected, "0x%llx", (unsigned long long)value);
    struct print hexadecimal = print_to(text, sizeof text);
    print_hexadecimal(&hexadecimal, value);
    assert_int_equal(hexadecimal.length, strlen(expected));
    assert_memory_equal(text, expected, hexadecimal.length);
}

static void test_numbers(void **state) {
    (void)state;
    check_number(0);
    check_number(UINT64_MAX);
    for (unsigned bit = 0; bit < 64; bit++) {
        check_number((uint64_t)1 << bit);
        check_number(((uint64_t)1 << bit) - 1);
    }
    for (uint64_t power = 1; power < UINT64_MAX / 10; power *= 10) {
        check_number(power * 9);
        check_number(power - 1);
    }
}

static void test_pieces_follow_each_other(void **state) {
    (void)state;
    static const char expected[] = "pid=17 at 0xff.";
    char text[64];
    struct print out = print_to(text, sizeof text);
    print_text(&out, "");
    print_text(&out, "pid=");
    print_decimal(&out, 17);
    print_text(&out, " at ");
    print_hexadecimal(&out, 255);
    print_text(&out, ".");
    assert_int_equal(out.length, strlen(expected));
    assert_memory_equal(text, expected, out.length);
}

static void test_formats(void **state) {
    (void)state;
    static const char expected[] = "ab, 4294967295 and 18446744073709551615 at 0x0 to 0xff;";
    char text[64];
    struct print out = print_to(text, sizeof text);
    print_format(&out, "%s%s, %u and %lu at %#lx to %#lx%s", "ab", "", UINT32_MAX, UINT64_MAX,
                 (uint64_t)0, (uint64_t)255, ";");
    assert_int_equal(out.length, strlen(expected));
    assert_memory_equal(text, expected, out.length);
}

/* Whatever the room, what fits is kept and nothing is written behind it. */
static void test_full_buffer(void **state) {
    (void)state;
    static const char whole[] = "abc1234567890x";
    for (size_t room = 0; room <= strlen(whole); room++) {
        char text[sizeof whole + 1];
        memset(text, '#', sizeof text);
        struct print out = print_to(text, room);
        print_text(&out, "abc");
        print_decimal(&out, 1234567890);
        print_text(&out, "x");
        assert_int_equal(out.length, room);
        assert_memory_equal(text, whole, room);
        assert_int_equal(text[room], '#');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_pieces_follow_each_other),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_full_buffer),
    };
    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
