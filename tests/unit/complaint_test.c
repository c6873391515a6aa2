#include "objects/complaint.h"

#include <errno.h>

#include "unit/unit.h"

static struct {
    int error;
    char text[128];
    void *context;
    unsigned count;
} told;

static void listen(int error, const char *text, void *context) {
    told.error = error;
    snprintf(told.text, sizeof told.text, "%s", text);
    told.context = context;
    told.count++;
    complaint_memory(7); /* nobody is told of what fails in here */
    errno = EIO;         /* the program's errno is not this */
}

static void test_function_is_told(void **state) {
    (void)state;
    int there;
    complaint_set_function(listen, &there);
    errno = 4711;
    complaint_memory(123456);
    assert_int_equal(errno, 4711);
    assert_int_equal(told.error, ENOMEM);
    assert_string_equal(told.text, "primalloc: no memory for a block of 123456 bytes");
    assert_ptr_equal(told.context, &there);
    complaint_foreign("realloc", (void *)0x1230);
    assert_int_equal(told.error, EINVAL);
    assert_string_equal(told.text, "primalloc: realloc of 0x1230, which is not a block of ours");
    assert_int_equal(told.count, 2);
}

static void test_nobody_is_told(void **state) {
    (void)state;
    complaint_set_function(NULL, NULL);
    unsigned before = told.count;
    complaint_memory(1);
    assert_int_equal(told.count, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_function_is_told),
        cmocka_unit_test(test_nobody_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
