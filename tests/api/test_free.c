/* free and its sized forms (C23, POSIX.1-2024), cfree, and pointers that are not ours. */
#include "support/support.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/names.h"

static const size_t sizes[] = {0,    1,     8,     16,     100,    1000,    4096,
                               9000, 33000, 70000, 262144, 300000, 2 << 20, 40 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void test_null_is_ignored(void **state) {
    (void)state;
    free(opaque(NULL));
#if !defined PRIM_TEST_PREFIXED
    if (has_cfree()) {
        cfree(opaque(NULL));
    }
#endif
}

/* T30: also when free gives memory back to the system. */
static void test_t30_free_keeps_errno(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        enum { COUNT = 40 };
        void *blocks[COUNT];
        for (size_t j = 0; j < COUNT; j++) {
            blocks[j] = opaque(malloc(sizes[i]));
            assert_non_null(blocks[j]);
        }
        for (size_t j = 0; j < COUNT; j++) {
            errno = EXDEV;
            free(blocks[j]);
            assert_int_equal(errno, EXDEV);
        }
    }
    errno = EXDEV;
    free(NULL);
    assert_int_equal(errno, EXDEV);
    malloc_trim(0);
}

/* T24: the size given is the size last asked for, whatever the block really holds. */
static void test_t24_free_sized(void **state) {
    (void)state;
    if (!has_sized_free()) {
        skip();
    }
    errno = EXDEV;
    for (size_t i = 0; i < SIZES; i++) {
        for (int round = 0; round < 20; round++) {
            free_sized(opaque(malloc(sizes[i])), sizes[i]);
            free_sized(opaque(calloc(1, sizes[i])), sizes[i]);
            void *grown = opaque(realloc(malloc(sizes[i] + 1), sizes[i] + 100));
            free_sized(grown, sizes[i] + 100);
            size_t kept = sizes[i] - sizes[i] / 8 + 1;
            void *shrunk = opaque(realloc(malloc(sizes[i] + 1), kept));
            free_sized(shrunk, kept);
        }
    }
    /* T25 */
    free_sized(opaque(NULL), 0);
    free_sized(opaque(NULL), 100);
    free_sized(opaque(NULL), SIZE_MAX);
    assert_int_equal(errno, EXDEV);
}

static void test_t25_free_aligned_sized(void **state) {
    (void)state;
    if (!has_sized_free()) {
        skip();
    }
    errno = EXDEV;
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t alignment = 1; alignment <= 1 << 20; alignment *= 4) {
            void *block = opaque(aligned_alloc(alignment, sizes[i]));
            assert_non_null(block);
            free_aligned_sized(block, alignment, sizes[i]);
        }
    }
    /* T25 */
    free_aligned_sized(opaque(NULL), 64, 100);
    free_aligned_sized(opaque(NULL), 0, 0);
    assert_int_equal(errno, EXDEV);
}

#if !defined PRIM_TEST_PREFIXED
static void test_cfree(void **state) {
    (void)state;
    if (!has_cfree()) {
        skip();
    }
    for (size_t i = 0; i < SIZES; i++) {
        cfree(opaque(malloc(sizes[i])));
    }
}
#endif

static char static_bytes[8192];
static const char constant_bytes[64] = "constant";

/* T05: freeing what no allocator gave out does nothing. */
static void test_t05_foreign_pointers_are_ignored(void **state) {
    (void)state;
    if (is_reference_allocator()) {
        skip();
    }
    char stack_bytes[8192];
    memset(stack_bytes, 7, sizeof stack_bytes);
    memset(static_bytes, 7, sizeof static_bytes);
    void *const foreign[] = {
        stack_bytes,
        stack_bytes + 64,
        stack_bytes + 4096,
        static_bytes,
        static_bytes + 1,
        (void *)constant_bytes,
        (void *)(uintptr_t)fill_pattern,
        &errno,
        (void *)16,
        (void *)0x7ffffffff000,
        (void *)UINTPTR_MAX,
        (void *)((uintptr_t)1 << 62),
    };
    enum { COUNT = sizeof foreign / sizeof foreign[0] };
    for (size_t i = 0; i < COUNT; i++) {
        errno = EXDEV;
        free(opaque(foreign[i]));
        assert_int_equal(errno, EXDEV);
        assert_null(opaque(realloc(opaque(foreign[i]), 100)));
        assert_null(opaque(reallocarray(opaque(foreign[i]), 10, 10)));
    }
    for (size_t i = 0; i < sizeof stack_bytes; i++) {
        assert_int_equal(stack_bytes[i], 7);
        assert_int_equal(static_bytes[i], 7);
    }
    /* None of them may come out of the allocator later. */
    for (size_t size = 8; size <= 8192; size *= 2) {
        for (int i = 0; i < 100; i++) {
            char *block = opaque(malloc(size));
            for (size_t j = 0; j < COUNT; j++) {
                assert_ptr_not_equal(block, foreign[j]);
            }
            free(block);
        }
    }
}

#if !defined PRIM_TEST_PREFIXED && !defined PRIM_TEST_FULLY_STATIC
/* T08: a library loaded with RTLD_DEEPBIND calls libc's malloc and leaves the rest to us: libc gets
 * its block back. */
static void test_t08_blocks_of_libc_are_accepted(void **state) {
    (void)state;
    if (is_reference_allocator()) {
        skip();
    }
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    assert_non_null(libc);
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    assert_non_null(libc_malloc);
    const size_t libc_sizes[] = {1, 24, 1000, 100000, 1 << 20};
    for (size_t i = 0; i < sizeof libc_sizes / sizeof libc_sizes[0]; i++) {
        for (int j = 0; j < 50; j++) {
            unsigned char *block = opaque(libc_malloc(libc_sizes[i]));
            assert_non_null(block);
            fill_pattern(block, libc_sizes[i], 3);
            assert_true(malloc_usable_size(block) >= libc_sizes[i]);
            block = opaque(realloc(block, libc_sizes[i] + 1000));
            assert_non_null(block);
            assert_int_equal(check_pattern(block, libc_sizes[i], 3), libc_sizes[i]);
            errno = EXDEV;
            free(block);
            assert_int_equal(errno, EXDEV);
        }
    }
    dlclose(libc);
}

/* A second copy of libc in its own namespace has a heap of its own (T03 is the same with LD_AUDIT).
 * */
static void test_t03_blocks_of_another_namespace_are_ignored(void **state) {
    (void)state;
    if (is_reference_allocator()) {
        skip();
    }
    void *libc = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    assert_non_null(libc);
    char *(*other_strdup)(const char *) = (char *(*)(const char *))dlsym(libc, "strdup");
    assert_non_null(other_strdup);
    for (int i = 0; i < 50; i++) {
        char *text = opaque(other_strdup("from another namespace"));
        assert_non_null(text);
        assert_null(opaque(realloc(text, 1000)));
        free(text);
        assert_string_equal(text, "from another namespace");
    }
    dlclose(libc);
}
#endif

int main(void) {
    expect_allocator();
    watchdog_start(120, "api/test_free");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_is_ignored),
        cmocka_unit_test(test_t30_free_keeps_errno),
        cmocka_unit_test(test_t24_free_sized),
        cmocka_unit_test(test_t25_free_aligned_sized),
#if !defined PRIM_TEST_PREFIXED
        cmocka_unit_test(test_cfree),
#endif
        cmocka_unit_test(test_t05_foreign_pointers_are_ignored),
#if !defined PRIM_TEST_PREFIXED && !defined PRIM_TEST_FULLY_STATIC
        cmocka_unit_test(test_t08_blocks_of_libc_are_accepted),
        cmocka_unit_test(test_t03_blocks_of_another_namespace_are_ignored),
#endif
    };
    return cmocka_run_group_tests_name("free and foreign pointers", tests, NULL, NULL);
}
