/* Every name of the export table is defined by the library under test, not by the C library or the
 * C++ runtime: one that is missing would mix two heaps (T10). */
#include "support/support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "primalloc.h"

static const struct {
    const char *name;
    const char *group;
} exports[] = {
#define EXPORT(symbol, group, source) {#symbol, #group},
#include "api/exports.def"
#undef EXPORT
};
enum { EXPORTS = sizeof exports / sizeof exports[0] };

static void test_t10_every_export_is_ours(void **state) {
    (void)state;
    Dl_info malloc_object;
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &malloc_object), 0);
    int foreign = 0;
    for (size_t i = 0; i < EXPORTS; i++) {
        void *symbol = dlsym(RTLD_DEFAULT, exports[i].name);
        Dl_info object = {0};
        if (symbol == NULL || dladdr(symbol, &object) == 0 ||
            object.dli_fbase != malloc_object.dli_fbase) {
            fprintf(stderr, "%s (%s) is defined by %s\n", exports[i].name, exports[i].group,
                    object.dli_fname != NULL ? object.dli_fname : "nobody");
            foreign++;
        }
    }
    assert_int_equal(foreign, 0);
}

static void test_table_is_complete(void **state) {
    (void)state;
    size_t operators = 0;
    for (size_t i = 0; i < EXPORTS; i++) {
        operators += strcmp(exports[i].group, "CXX") == 0;
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(strcmp(exports[i].name, exports[j].name), 0);
        }
    }
    /* C++17: eight forms of new and twelve of delete. */
    assert_int_equal(operators, 20);
}

static void test_version(void **state) {
    (void)state;
    const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "prim_version");
    assert_non_null(version);
    assert_string_equal(version(), PRIM_TEST_VERSION);
}

/* T55: programs look for these names to learn which allocator they run on. */
static void test_t55_names_of_other_allocators_are_absent(void **state) {
    (void)state;
    const char *const names[] = {"mallctl",   "malloc_stats_print",       "mi_malloc", "mi_version",
                                 "tc_malloc", "MallocExtension_Internal", "je_malloc", "rpmalloc"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_null(dlsym(RTLD_DEFAULT, names[i]));
    }
}

int main(void) {
    expect_allocator();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t10_every_export_is_ours),
        cmocka_unit_test(test_table_is_complete),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_t55_names_of_other_allocators_are_absent),
    };
    return cmocka_run_group_tests_name("export table", tests, NULL, NULL);
}
