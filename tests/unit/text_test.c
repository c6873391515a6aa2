#include "base/text.h"

#include "unit/unit.h"

/* What ISO 10646 and RFC 3629 say, by the bits of each number. */
static size_t put(char text[4], uint32_t number) {
    size_t count = number < 0x80 ? 1 : number < 0x800 ? 2 : number < 0x10000 ? 3 : 4;
    static const unsigned char firsts[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = count; i-- > 1; number >>= 6) {
        text[i] = (char)(0x80 | (number & 0x3f));
    }
    text[0] = (char)(firsts[count] | number);
    return count;
}

static void test_every_character(void **state) {
    (void)state;
    char text[4];
    for (uint32_t number = 0; number < 0x120000; number++) {
        size_t count = put(text, number);
        bool is_character = number < 0x110000 && (number < 0xd800 || number > 0xdfff);
        assert_int_equal(text_character(text, 4), is_character ? count : 0);
        assert_int_equal(text_character(text, count), is_character ? count : 0);
        if (count > 1) {
            assert_int_equal(text_character(text, count - 1), 0);
        }
    }
}

static void test_no_characters(void **state) {
    (void)state;
    static const char *const texts[] = {
        "\x80",             /* begins none */
        "\xbf\xbf",         /* the same */
        "\xc0\xaf",         /* longer than needed */
        "\xc1\xbf",         /* the same */
        "\xe0\x9f\xbf",     /* the same */
        "\xf0\x8f\xbf\xbf", /* the same */
        "\xf8\x88\x80\x80", /* of five bytes */
        "\xff\xff\xff\xff", /* begins none */
        "\xc3(",            /* does not go on */
        "\xe2\x82(",        /* the same */
        "\xf0\x9d\x84(",    /* the same */
        "\xe2(\xac",        /* the same, in the middle */
    };
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(text_character(texts[i], strlen(texts[i])), 0);
    }
}

static void test_beginnings_and_ends(void **state) {
    (void)state;
    assert_string_equal(text_behind("name=value", "name"), "=value");
    assert_string_equal(text_behind("name", "name"), "");
    assert_null(text_behind("nam", "name"));
    assert_true(text_ends_with("bytes", "es") && text_ends_with("es", "es"));
    assert_false(text_ends_with("s", "es"));
    assert_string_equal(text_at("one\0two\0three", 2), "three");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character),
        cmocka_unit_test(test_no_characters),
        cmocka_unit_test(test_beginnings_and_ends),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
