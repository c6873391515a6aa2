#include "os/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "unit/unit.h"

static char path[] = "/tmp/primalloc-text-file-XXXXXX";

static void write_file(const char *text, size_t size) {
    int file = open(path, O_WRONLY | O_TRUNC);
    CHECK(file >= 0 && write(file, text, size) == (ssize_t)size, "cannot write %s", path);
    close(file);
}

static void expect_number(const char *text, bool is_number, uint64_t expected) {
    uint64_t number = 0;
    write_file(text, strlen(text));
    errno = ERRNO_MARK;
    assert_int_equal(text_file_number(path, &number), is_number);
    assert_int_equal(errno, ERRNO_MARK);
    if (is_number) {
        assert_true(number == expected);
    }
}

static void test_numbers(void **state) {
    (void)state;
    expect_number("0\n", true, 0);
    expect_number("65530\n", true, 65530);
    expect_number("18446744073709551615", true, UINT64_MAX);
    expect_number("12 34", true, 12);
    expect_number("18446744073709551616", false, 0);
    expect_number("99999999999999999999999999999999", false, 0);
    expect_number("", false, 0);
    expect_number("max\n", false, 0);
    expect_number("-1\n", false, 0);
    expect_number(" 7\n", false, 0);
}

static void test_missing(void **state) {
    (void)state;
    uint64_t number;
    struct text_file file;
    errno = ERRNO_MARK;
    assert_false(text_file_number("/no/such/file", &number));
    assert_false(text_file_open(&file, "/no/such/file"));
    assert_int_equal(errno, ERRNO_MARK);
    assert_false(text_file_number("/tmp", &number)); /* opens, cannot be read */
    assert_int_equal(errno, ERRNO_MARK);
}

/* More than the buffer holds, with every value of a byte. */
static void test_bytes(void **state) {
    (void)state;
    char text[3000];
    struct text_file file;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)(i % 256);
    }
    write_file(text, sizeof text);
    assert_true(text_file_open(&file, path));
    for (size_t i = 0; i < sizeof text; i++) {
        assert_int_equal(text_file_byte(&file), i % 256);
    }
    assert_int_equal(text_file_byte(&file), TEXT_FILE_END);
    assert_int_equal(text_file_byte(&file), TEXT_FILE_END);
    assert_int_equal(fcntl(file.descriptor, F_GETFD), FD_CLOEXEC);
    text_file_close(&file);
    assert_int_equal(fcntl(file.descriptor, F_GETFD), -1);
}

static void expect_line(struct text_file *file, const char *expected) {
    char room[700];
    char *line = text_file_line(file, room, sizeof room);
    assert_non_null(line);
    assert_string_equal(line, expected);
    memset(line, '#', strlen(line)); /* the caller's to change */
}

/* Lines that lie in the buffer, that do not, and that are longer than the room. */
static void test_lines(void **state) {
    (void)state;
    char text[3000];
    char longest[700];
    struct text_file file;
    char room[8];
    memset(text, 'a', sizeof text);
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    text[5] = text[6] = text[2006] = text[2500] = '\n';
    write_file(text, sizeof text);
    errno = ERRNO_MARK;
    assert_true(text_file_open(&file, path));
    expect_line(&file, "aaaaa");
    expect_line(&file, "");
    expect_line(&file, longest);
    expect_line(&file, longest + sizeof longest - 1 - 493);
    expect_line(&file, longest + sizeof longest - 1 - 499); /* the file ends without an end */
    assert_null(text_file_line(&file, room, sizeof room));
    assert_null(text_file_line(&file, room, sizeof room));
    assert_int_equal(errno, ERRNO_MARK);
    text_file_close(&file);
}

static void test_decimals(void **state) {
    (void)state;
    uint64_t number;
    const char *at = "150000 100000x";
    assert_true(text_decimal(&at, &number) && number == 150000 && *at++ == ' ');
    assert_true(text_decimal(&at, &number) && number == 100000 && *at == 'x');
    assert_false(text_decimal(&at, &number));
    assert_int_equal(*at, 'x');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),  cmocka_unit_test(test_missing),
        cmocka_unit_test(test_bytes),    cmocka_unit_test(test_lines),
        cmocka_unit_test(test_decimals),
    };
    int file = mkstemp(path);
    CHECK(file >= 0, "cannot make %s", path);
    close(file);
    int failed = cmocka_run_group_tests_name("text file", tests, NULL, NULL);
    unlink(path);
    return failed;
}
