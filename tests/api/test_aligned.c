/* aligned_alloc (C17), posix_memalign (POSIX.1-2024), memalign, valloc and pvalloc (glibc). */
#include "support/support.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/names.h"

typedef void *allocate_aligned(size_t alignment, size_t size);

static void *by_posix_memalign(size_t alignment, size_t size) {
    void *block = NULL;
    if (alignment < sizeof(void *)) {
        alignment = sizeof(void *);
    }
    return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

static void *by_aligned_alloc(size_t alignment, size_t size) {
    return aligned_alloc(alignment, size);
}

static void *by_memalign(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

static allocate_aligned *const allocators[] = {by_posix_memalign, by_aligned_alloc, by_memalign};
enum { ALLOCATORS = sizeof allocators / sizeof allocators[0], LIVE = 4 };

static void check_alignment(allocate_aligned *allocate, size_t alignment, size_t size) {
    unsigned char *blocks[LIVE];
    for (size_t i = 0; i < LIVE; i++) {
        blocks[i] = opaque(allocate(alignment, size));
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % alignment, 0);
        assert_true(malloc_usable_size(blocks[i]) >= size);
        fill_pattern(blocks[i], size, i);
    }
    for (size_t i = 0; i < LIVE; i++) {
        assert_int_equal(check_pattern(blocks[i], size, i), size);
        free(blocks[i]);
    }
}

/* T27: the size need not be a multiple of the alignment. */
static void test_t27_every_alignment(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, 5, 24, 100, 1000, 4095, 5000, 33000, 300001};
    for (size_t i = 0; i < ALLOCATORS; i++) {
        for (size_t alignment = 1; alignment <= (size_t)8 << 20; alignment *= 2) {
            for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
                check_alignment(allocators[i], alignment, sizes[j]);
            }
        }
    }
}

static const size_t not_powers_of_two[] = {3,
                                           5,
                                           6,
                                           7,
                                           12,
                                           24,
                                           0x300,
                                           4095,
                                           4097,
                                           0x7fffffffffffffff,
                                           SIZE_MAX,
                                           SIZE_MAX - 1,
                                           ((size_t)1 << 63) + 1};
enum { NOT_POWERS = sizeof not_powers_of_two / sizeof not_powers_of_two[0] };

static void test_t27_aligned_alloc_refuses_other_alignments(void **state) {
    (void)state;
    for (size_t i = 0; i < NOT_POWERS; i++) {
        errno = 0;
        assert_null(opaque(aligned_alloc(opaque_size(not_powers_of_two[i]), 64)));
        assert_int_equal(errno, EINVAL);
    }
    errno = 0;
    assert_null(opaque(aligned_alloc(opaque_size(0), 64)));
    assert_int_equal(errno, EINVAL);
}

/* It returns the error and leaves the pointer as it was. */
static void test_t28_posix_memalign_reports_by_value(void **state) {
    (void)state;
    void *const untouched = &state;
    for (size_t i = 0; i < NOT_POWERS + 4; i++) {
        const size_t small[] = {0, 1, 2, 4};
        size_t alignment = i < NOT_POWERS ? not_powers_of_two[i] : small[i - NOT_POWERS];
        void *block = untouched;
        assert_int_equal(posix_memalign(&block, opaque_size(alignment), 64), EINVAL);
        assert_ptr_equal(block, untouched);
    }
    const size_t impossible[] = {SIZE_MAX, SIZE_MAX - 64, SIZE_MAX / 2 + 1, (size_t)1 << 60};
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        void *block = untouched;
        assert_int_equal(posix_memalign(&block, 64, opaque_size(impossible[i])), ENOMEM);
        assert_ptr_equal(block, untouched);
    }
}

/* T28: glibc rounds up to the next power of two. */
static void test_t28_memalign_rounds_alignment_up(void **state) {
    (void)state;
    const struct {
        size_t asked;
        size_t given;
    } rows[] = {{0, 1}, {1, 1}, {3, 4}, {24, 32}, {0x300, 0x400}, {4095, 4096}, {4097, 8192}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *blocks[LIVE];
        for (size_t j = 0; j < LIVE; j++) {
            blocks[j] = opaque(memalign(opaque_size(rows[i].asked), 100));
            assert_non_null(blocks[j]);
            assert_int_equal((uintptr_t)blocks[j] % rows[i].given, 0);
            assert_int_equal((uintptr_t)blocks[j] % 16, 0);
        }
        for (size_t j = 0; j < LIVE; j++) {
            free(blocks[j]);
        }
    }
    /* No power of two is as large as these. */
    const size_t impossible[] = {SIZE_MAX, SIZE_MAX / 2 + 2};
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        errno = 0;
        assert_null(opaque(memalign(opaque_size(impossible[i]), 100)));
        assert_int_equal(errno, EINVAL);
    }
}

/* T36: what describes the address space that would have to be searched would stay for good. */
static void test_t36_alignments_above_64_gib_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < ALLOCATORS; i++) {
        for (unsigned shift = 37; shift < 64; shift++) {
            errno = 0;
            assert_null(opaque(allocators[i]((size_t)1 << shift, 100)));
            assert_true(i == 0 || errno == ENOMEM);
        }
    }
}

/* T36: huge alignments either work or fail with ENOMEM; no abort, no wrap-around. */
static void test_t36_huge_alignments(void **state) {
    (void)state;
    for (size_t i = 0; i < ALLOCATORS; i++) {
        for (unsigned shift = 21; shift < 64; shift++) {
            size_t alignment = (size_t)1 << shift;
            errno = 0;
            void *block = opaque(allocators[i](alignment, 100));
            if (block != NULL) {
                assert_int_equal((uintptr_t)block % alignment, 0);
                memset(block, 1, 100);
                free(block);
            } else {
                assert_true(shift > 30);
                assert_true(i == 0 || errno == ENOMEM);
            }
        }
        for (unsigned shift = 0; shift < 64; shift++) {
            errno = 0;
            assert_null(opaque(allocators[i]((size_t)1 << shift, opaque_size(SIZE_MAX - 100))));
            assert_true(i == 0 || errno == ENOMEM);
        }
    }
    void *block = opaque(by_posix_memalign((size_t)4 << 20, (size_t)2200 << 20));
    if (block != NULL) {
        assert_int_equal((uintptr_t)block % ((size_t)4 << 20), 0);
        free(block);
    }
}

static void test_valloc_and_pvalloc(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 0; size < 100000; size = size * 2 + 1) {
        void *block = opaque(valloc(size));
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % page, 0);
        memset(block, 1, size);
        void *whole = opaque(pvalloc(size));
        assert_non_null(whole);
        assert_int_equal((uintptr_t)whole % page, 0);
        size_t rounded = (size + page - 1) / page * page;
        assert_true(malloc_usable_size(whole) >= rounded);
        memset(whole, 2, rounded);
        free(block);
        free(whole);
    }
}

/* T29: rounding up to pages may not wrap around. */
static void test_t29_valloc_and_pvalloc_fail_with_enomem(void **state) {
    (void)state;
    const size_t impossible[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4094, SIZE_MAX - 4096,
                                 SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        errno = 0;
        assert_null(opaque(pvalloc(opaque_size(impossible[i]))));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(opaque(valloc(opaque_size(impossible[i]))));
        assert_int_equal(errno, ENOMEM);
    }
}

/* Aligned blocks mixed with others of their size neither lose alignment nor memory. */
static void test_aligned_memory_is_reused(void **state) {
    (void)state;
    struct random random = {7};
    size_t before = resident_bytes();
    for (int i = 0; i < 100000; i++) {
        size_t alignment = (size_t)1 << random_below(&random, 15);
        size_t size = random_size(&random, 40000);
        void *block = opaque(allocators[i % ALLOCATORS](alignment, size));
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % alignment, 0);
        *(volatile unsigned char *)block = 1;
        free(block);
    }
    assert_true(resident_bytes() < before + ((size_t)64 << 20));
}

int main(void) {
    expect_allocator();
    watchdog_start(120, "api/test_aligned");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t27_every_alignment),
        cmocka_unit_test(test_t27_aligned_alloc_refuses_other_alignments),
        cmocka_unit_test(test_t28_posix_memalign_reports_by_value),
        cmocka_unit_test(test_t28_memalign_rounds_alignment_up),
        cmocka_unit_test(test_t36_alignments_above_64_gib_fail),
        cmocka_unit_test(test_t36_huge_alignments),
        cmocka_unit_test(test_valloc_and_pvalloc),
        cmocka_unit_test(test_t29_valloc_and_pvalloc_fail_with_enomem),
        cmocka_unit_test(test_aligned_memory_is_reused),
    };
    return cmocka_run_group_tests_name("aligned allocation", tests, NULL, NULL);
}
