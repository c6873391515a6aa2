#include "settings/option_value.h"

#include "base/bits.h"

#include "unit/unit.h"

static char text[128];

static const struct option_row *row(const char *name) {
    const struct option_row *found = option_row_named(name, strlen(name));
    assert_non_null(found);
    return found;
}

static const char *printed(const char *name, uint64_t value) {
    struct print out = print_to(text, sizeof text - 1);
    option_print_value(&out, row(name), value);
    text[out.length] = '\0';
    return text;
}

static const char *range(const char *name) {
    struct print out = print_to(text, sizeof text - 1);
    option_print_range(&out, row(name));
    text[out.length] = '\0';
    return text;
}

static void test_values_in_their_greatest_unit(void **state) {
    (void)state;
    assert_string_equal(printed("top_pad", 0), "0 bytes");
    assert_string_equal(printed("top_pad", 1023), "1023 bytes");
    assert_string_equal(printed("top_pad", 1536), "1536 bytes");
    assert_string_equal(printed("top_pad", 1537 << 10), "1537 KiB");
    assert_string_equal(printed("top_pad", 3 << 20), "3 MiB");
    assert_string_equal(printed("top_pad", 64ull << 30), "64 GiB");
    assert_string_equal(printed("trim_threshold", 1ull << 47), "128 TiB");
    assert_string_equal(printed("trim_threshold", OPTION_AUTO), "auto");
    assert_string_equal(printed("purge_delay", 0), "0 ms");
    assert_string_equal(printed("purge_delay", 1500), "1500 ms");
    assert_string_equal(printed("purge_delay", 90 * 1000), "90 s");
    assert_string_equal(printed("purge_delay", 120 * 1000), "2 min");
    assert_string_equal(printed("thp", THP_NEVER), "never");
    assert_string_equal(printed("purge", 1), "1");
    assert_string_equal(printed("perturb", 85), "85");
    assert_string_equal(printed("stats_output", 0), "not set");
    assert_string_equal(printed("stats_output", (uintptr_t) "/tmp/x"), "/tmp/x");
}

static void test_ranges(void **state) {
    (void)state;
    assert_string_equal(range("min_align"), "8 to 16 bytes");
    assert_string_equal(range("cache_total"), "64 KiB to 1 TiB");
    assert_string_equal(range("purge_delay"), "0 to 60 min");
    assert_string_equal(range("soft_limit"), "auto, 0 to 128 TiB");
    assert_string_equal(range("thp"), "auto, always or never");
    assert_string_equal(range("stats"), "off or full");
    assert_string_equal(range("purge"), "0 or 1");
    assert_string_equal(range("stats_output"), "a path");
}

/* What is printed can be typed in again, but for the space. */
static void test_printed_values_parse(void **state) {
    (void)state;
    struct random random = unit_random();
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *each = &option_rows[i];
        for (int round = 0; round < 1000 && each->type != TYPE_TEXT; round++) {
            uint64_t span = each->maximum - each->minimum + 1;
            uint64_t value = each->minimum + random_next(&random) % span;
            value = round % 2 ? value : bits_max(value & ~(uint64_t)0xfffff, each->minimum);
            struct print out = print_to(text, sizeof text);
            option_print_value(&out, each, value);
            size_t length = 0;
            for (size_t j = 0; j < out.length; j++) {
                text[length] = text[j];
                length += text[j] != ' ';
            }
            bool is_plain =
                strstr(option_unit(each), "shards") || strcmp(option_unit(each), "bytes") == 0;
            size_t singular = strlen(option_unit(each)) - is_plain; /* 1 byte, 2 bytes */
            char *unit = is_plain ? memmem(text, length, option_unit(each), singular) : NULL;
            uint64_t parsed;
            CHECK(option_parse(each, text, unit ? (size_t)(unit - text) : length, &parsed) &&
                      parsed == value,
                  "%s: %.*s", option_name(each), (int)length, text);
        }
    }
}

static void test_units(void **state) {
    (void)state;
    assert_int_equal(size_unit("K", 1), 1 << 10);
    assert_int_equal(size_unit("kIb", 3), 1 << 10);
    assert_int_equal(size_unit("tb", 2), 1ll << 40);
    assert_int_equal(size_unit("", 0), 0);
    assert_int_equal(size_unit("P", 1), 0);
    assert_int_equal(size_unit("\0", 1), 0);
    assert_int_equal(size_unit("KiBs", 4), 0);
    assert_int_equal(size_unit("Ki", 2), 0);
    assert_true(word_is("AuTo", 4, "auto"));
    assert_false(word_is("auto", 3, "auto"));
    assert_false(word_is("autos", 5, "auto"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_in_their_greatest_unit),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_printed_values_parse),
        cmocka_unit_test(test_units),
    };
    return cmocka_run_group_tests_name("option_value", tests, NULL, NULL);
}
