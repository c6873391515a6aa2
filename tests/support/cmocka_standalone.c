/* The few functions of cmocka's runner that these tests use, for programs linked with -static:
 * Debian ships cmocka as a shared library only. Same declarations (cmocka.h), same output form, no
 * isolation between tests. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static jmp_buf test_exit;
enum { TEST_FAILED = 1, TEST_SKIPPED = 2 };

__attribute__((noreturn)) void _fail(const char *const file, const int line) {
    fprintf(stderr, "%s:%d: error: failure\n", file, line);
    longjmp(test_exit, TEST_FAILED);
}

void _skip(const char *const file, const int line) {
    fprintf(stderr, "%s:%d: skipped\n", file, line);
    longjmp(test_exit, TEST_SKIPPED);
}

void _assert_true(const LargestIntegralType result, const char *const expression,
                  const char *const file, const int line) {
    if (result == 0) {
        fprintf(stderr, "%s is false\n", expression);
        _fail(file, line);
    }
}

void _assert_int_equal(const LargestIntegralType a, const LargestIntegralType b,
                       const char *const file, const int line) {
    if (a != b) {
        fprintf(stderr, "%#llx != %#llx\n", (unsigned long long)a, (unsigned long long)b);
        _fail(file, line);
    }
}

void _assert_int_not_equal(const LargestIntegralType a, const LargestIntegralType b,
                           const char *const file, const int line) {
    if (a == b) {
        fprintf(stderr, "%#llx == %#llx\n", (unsigned long long)a, (unsigned long long)b);
        _fail(file, line);
    }
}

void _assert_in_range(const LargestIntegralType value, const LargestIntegralType minimum,
                      const LargestIntegralType maximum, const char *const file, const int line) {
    if (value < minimum || value > maximum) {
        fprintf(stderr, "%#llx is not within %#llx-%#llx\n", (unsigned long long)value,
                (unsigned long long)minimum, (unsigned long long)maximum);
        _fail(file, line);
    }
}

void _assert_string_equal(const char *const a, const char *const b, const char *const file,
                          const int line) {
    if (strcmp(a, b) != 0) {
        fprintf(stderr, "\"%s\" != \"%s\"\n", a, b);
        _fail(file, line);
    }
}

void _assert_memory_equal(const void *const a, const void *const b, const size_t size,
                          const char *const file, const int line) {
    if (memcmp(a, b, size) != 0) {
        fprintf(stderr, "%zu bytes differ\n", size);
        _fail(file, line);
    }
}

int _cmocka_run_group_tests(const char *group_name, const struct CMUnitTest *const tests,
                            const size_t num_tests, CMFixtureFunction group_setup,
                            CMFixtureFunction group_teardown) {
    void *state = NULL;
    volatile int failed = 0;
    printf("[==========] %s: Running %zu test(s).\n", group_name, num_tests);
    if (group_setup != NULL && group_setup(&state) != 0) {
        return 1;
    }
    for (size_t i = 0; i < num_tests; i++) {
        int outcome = setjmp(test_exit);
        if (outcome == 0) {
            tests[i].test_func(&state);
        }
        printf("[ %s ] %s\n",
               outcome == 0              ? "     OK"
               : outcome == TEST_SKIPPED ? "SKIPPED"
                                         : " FAILED",
               tests[i].name);
        failed += outcome == TEST_FAILED;
    }
    if (group_teardown != NULL) {
        group_teardown(&state);
    }
    printf("[==========] %zu test(s) run, %d failed.\n", num_tests, failed);
    return failed;
}
