#include "os/process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/output_file.h"
#include "unit/unit.h"

extern char **environ;

static void test_environment(void **state) {
    (void)state;
    assert_ptr_equal(process_environment(), environ);
}

static void test_forget_variable(void **state) {
    (void)state;
    char *small[] = {"AB=1", "A=1", "A", "B=A=2", "A=2", "ABC=3", "A=", NULL};
    char **saved = environ;
    environ = small;
    process_forget_variable("A");
    environ = saved;
    assert_string_equal(small[0], "AB=1");
    assert_string_equal(small[1], "A");
    assert_string_equal(small[2], "B=A=2");
    assert_string_equal(small[3], "ABC=3");
    assert_null(small[4]);
}

static void test_forget_variable_without_any(void **state) {
    (void)state;
    char *none[] = {NULL};
    char **saved = environ;
    environ = none;
    process_forget_variable("A");
    environ = NULL;
    process_forget_variable("A");
    environ = saved;
    assert_null(none[0]);
}

static bool is_open(int file) {
    return fcntl(file, F_GETFD) != -1;
}

/* Answers a request that names the file with its own device and an inode so much greater. */
static void answer(int file, unsigned long long device_change, unsigned long long inode_change,
                   const char *tail) {
    struct stat status;
    char request[128];
    assert_int_equal(fstat(file, &status), 0);
    snprintf(request, sizeof request, "%d:%llu:%llu%s", file,
             (unsigned long long)status.st_dev + device_change,
             (unsigned long long)status.st_ino + inode_change, tail);
    errno = ERRNO_MARK;
    process_answer_handshake(request, "hello\n", 6);
    assert_int_equal(errno, ERRNO_MARK);
}

static void test_handshake(void **state) {
    (void)state;
    int ends[2];
    char text[16] = {0};
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    answer(ends[1], 0, 1, "");
    answer(ends[1], 1, 0, "");
    answer(ends[1], 0, 0, ":");
    answer(ends[1], 0, 0, "x");
    assert_int_equal(read(ends[0], text, sizeof text), -1);
    assert_true(is_open(ends[1]));
    answer(ends[1], 0, 0, "");
    assert_false(is_open(ends[1]));
    assert_int_equal(read(ends[0], text, sizeof text), 6);
    assert_string_equal(text, "hello\n");
    close(ends[0]);
}

static void test_handshake_with_something_else(void **state) {
    (void)state;
    char path[] = "/tmp/primalloc-unit-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    answer(file, 0, 0, "");
    assert_true(is_open(file));
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    close(file);
    unlink(path);
    static const char *const malformed[] = {
        "",         ":", "::", "7", "7:", "7:8", "x:1:2", "-1:1:2", "99999999999999999999999:1:2",
        "65536:0:0"};
    for (size_t i = 0; i < ARRAY_LENGTH(malformed); i++) {
        process_answer_handshake(malformed[i], "hello\n", 6);
    }
    assert_true(is_open(STDIN_FILENO) || is_open(STDOUT_FILENO));
}

static void write_greeting(const void *argument) {
    errno = ERRNO_MARK;
    process_write_error(argument, 4);
    assert_int_equal(errno, ERRNO_MARK);
}

static void test_write_error(void **state) {
    (void)state;
    char text[32];
    assert_int_equal(unit_capture_errors(text, sizeof text, write_greeting, "abcdef"), 4);
    assert_string_equal(text, "abcd");
}

static void write_to_closed_error(void) {
    close(STDERR_FILENO);
    errno = ERRNO_MARK;
    process_write_error("text", 4);
    _exit(errno == ERRNO_MARK ? 0 : 1);
}

static void test_write_to_closed_error(void **state) {
    (void)state;
    assert_int_equal(unit_signal_of(write_to_closed_error), 0);
}

static void test_append_to_file(void **state) {
    (void)state;
    char path[] = "/tmp/primalloc-unit-XXXXXX";
    char text[32] = {0};
    int file = mkstemp(path);
    assert_true(file >= 0);
    errno = ERRNO_MARK;
    output_file_append(path, "one\n", 4);
    output_file_append(path, "two\n", 4);
    assert_int_equal(read(file, text, sizeof text), 8);
    assert_string_equal(text, "one\ntwo\n");
    close(file);
    unlink(path);
    output_file_append(path, "new\n", 4);
    assert_int_equal(unlink(path), 0);
    output_file_append("/nonexistent/folder/file", "lost\n", 5);
    assert_int_equal(errno, ERRNO_MARK);
}

static void test_identity(void **state) {
    (void)state;
    assert_int_equal(process_id(), getpid());
    assert_string_equal(process_program_name(), program_invocation_short_name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_forget_variable),
        cmocka_unit_test(test_forget_variable_without_any),
        cmocka_unit_test(test_handshake),
        cmocka_unit_test(test_handshake_with_something_else),
        cmocka_unit_test(test_write_error),
        cmocka_unit_test(test_write_to_closed_error),
        cmocka_unit_test(test_append_to_file),
        cmocka_unit_test(test_identity),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
