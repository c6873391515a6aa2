/* malloc_usable_size (T10, T33): never less than asked for, the same for life, and really writable.
 * */
#include "support/support.h"

#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/names.h"

static void *by_posix_memalign(size_t size) {
    void *block = NULL;
    return posix_memalign(&block, 64, size) == 0 ? block : NULL;
}

static void *by_malloc(size_t size) {
    return malloc(size);
}
static void *by_calloc(size_t size) {
    return calloc(size, 1);
}
static void *by_realloc(size_t size) {
    return realloc(NULL, size);
}
static void *by_growth(size_t size) {
    return realloc(malloc(size / 2 + 1), size + (size == 0));
}
static void *by_reallocarray(size_t size) {
    return reallocarray(NULL, 1, size);
}
static void *by_aligned_alloc(size_t size) {
    return aligned_alloc(256, size);
}
static void *by_memalign(size_t size) {
    return memalign(32, size);
}
static void *by_valloc(size_t size) {
    return valloc(size);
}
static void *by_pvalloc(size_t size) {
    return pvalloc(size);
}

static void *(*const allocators[])(size_t) = {
    by_malloc,        by_calloc,         by_realloc,  by_growth, by_reallocarray,
    by_aligned_alloc, by_posix_memalign, by_memalign, by_valloc, by_pvalloc,
};
enum { ALLOCATORS = sizeof allocators / sizeof allocators[0] };

static void test_null_has_no_bytes(void **state) {
    (void)state;
    assert_int_equal(malloc_usable_size(opaque(NULL)), 0);
}

static void test_at_least_what_was_asked_for(void **state) {
    (void)state;
    for (size_t i = 0; i < ALLOCATORS; i++) {
        for (size_t size = 0; size < 300000; size = size < 3000 ? size + 13 : size + size / 5) {
            void *block = opaque(allocators[i](size));
            assert_non_null(block);
            assert_true(malloc_usable_size(block) >= size);
            free(block);
        }
    }
}

/* Blocks filled to their last usable byte leave each other alone and keep their usable size. */
static void test_t33_all_usable_bytes_are_writable(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    static struct {
        unsigned char *block;
        size_t usable;
    } live[COUNT];
    struct random random = {11};
    for (uint64_t i = 0; i < COUNT; i++) {
        live[i].block = opaque(allocators[i % ALLOCATORS](random_size(&random, 200000)));
        assert_non_null(live[i].block);
        live[i].usable = malloc_usable_size(live[i].block);
        fill_pattern(live[i].block, live[i].usable, i);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(malloc_usable_size(live[i].block), live[i].usable);
        assert_int_equal(check_pattern(live[i].block, live[i].usable, i), live[i].usable);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        free(live[i].block);
    }
}

/* A program that uses the whole block and then asks for that much must keep its bytes. */
static void test_realloc_to_the_usable_size_keeps_every_byte(void **state) {
    (void)state;
    struct random random = {12};
    for (int i = 0; i < 2000; i++) {
        unsigned char *block = opaque(malloc(random_size(&random, 500000)));
        assert_non_null(block);
        size_t usable = malloc_usable_size(block);
        fill_pattern(block, usable, 9);
        block = opaque(realloc(block, usable + (usable == 0)));
        assert_non_null(block);
        assert_int_equal(check_pattern(block, usable, 9), usable);
        free(block);
    }
}

/* Without free blocks of greater classes, which may be lent (decision 0009). */
static void test_waste_is_moderate(void **state) {
    (void)state;
    malloc_trim(0);
    for (size_t size = 64; size <= 16384; size++) {
        void *block = opaque(malloc(size));
        assert_non_null(block);
        assert_true(malloc_usable_size(block) <= size + size / 4 + 16);
        free(block);
    }
}

int main(void) {
    expect_allocator();
    watchdog_start(60, "api/test_usable_size");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_has_no_bytes),
        cmocka_unit_test(test_at_least_what_was_asked_for),
        cmocka_unit_test(test_t33_all_usable_bytes_are_writable),
        cmocka_unit_test(test_realloc_to_the_usable_size_keeps_every_byte),
        cmocka_unit_test(test_waste_is_moderate),
    };
    return cmocka_run_group_tests_name("malloc_usable_size", tests, NULL, NULL);
}
