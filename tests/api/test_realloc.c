/* realloc (C11 7.22.3.5, with glibc's meaning of size 0) and reallocarray (POSIX.1-2024). */
#include "support/support.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/names.h"

static void test_null_is_malloc(void **state) {
    (void)state;
    for (size_t size = 0; size < 100000; size = size * 3 + 1) {
        unsigned char *block = opaque(realloc(NULL, size));
        assert_non_null(block);
        memset(block, 1, size);
        free(block);
    }
}

/* T31 */
static void test_t31_size_zero_frees_and_gives_null(void **state) {
    (void)state;
    for (size_t size = 1; size < (size_t)2 << 20; size = size * 2 + 1) {
        void *block = opaque(malloc(size));
        assert_non_null(block);
        assert_null(opaque(realloc(block, opaque_size(0))));
        block = opaque(malloc(size));
        assert_null(opaque(reallocarray(block, opaque_size(0), 5)));
        block = opaque(malloc(size));
        assert_null(opaque(reallocarray(block, 5, opaque_size(0))));
    }
    /* Blocks that size 0 did not free would pile up to several gigabytes here. */
    size_t before = resident_bytes();
    for (int i = 0; i < 3000; i++) {
        unsigned char *block = opaque(malloc(1 << 20));
        assert_non_null(block);
        for (size_t offset = 0; offset < 1 << 20; offset += 4096) {
            block[offset] = 1;
        }
        assert_null(opaque(realloc(block, opaque_size(0))));
    }
    assert_true(resident_bytes() < before + ((size_t)256 << 20));
}

static void test_failure_keeps_the_old_block(void **state) {
    (void)state;
    const size_t impossible[] = {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2 + 1, (size_t)1 << 60};
    for (size_t size = 1; size < (size_t)1 << 20; size = size * 3 + 1) {
        unsigned char *block = opaque(malloc(size));
        assert_non_null(block);
        fill_pattern(block, size, size);
        for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
            errno = 0;
            assert_null(opaque(realloc(block, opaque_size(impossible[i]))));
            assert_int_equal(errno, ENOMEM);
            assert_int_equal(check_pattern(block, size, size), size);
        }
        fill_pattern(block, size, 77);
        free(block);
    }
}

static void check_move(size_t from, size_t to) {
    unsigned char *block = opaque(malloc(from));
    assert_non_null(block);
    fill_pattern(block, from, from + to);
    block = opaque(realloc(block, to));
    assert_non_null(block);
    assert_true(malloc_usable_size(block) >= to);
    assert_int_equal((uintptr_t)block % (to > 8 ? 16 : 8), 0);
    size_t common = from < to ? from : to;
    /* The pattern's last word is cut, so whole words are compared, then the rest byte by byte. */
    unsigned char expected[8];
    assert_int_equal(check_pattern(block, common & ~(size_t)7, from + to), common & ~(size_t)7);
    unsigned char *source = opaque(malloc(from));
    assert_non_null(source);
    fill_pattern(source, from, from + to);
    size_t tail = common & 7;
    memcpy(expected, source + common - tail, tail);
    assert_memory_equal(block + common - tail, expected, tail);
    free(source);
    memset(block, 0x5a, to);
    free(block);
}

static void test_content_survives_every_kind_of_move(void **state) {
    (void)state;
    const size_t sizes[] = {1,     8,     9,     16,    24,     48,     100,    128,     129,
                            500,   1024,  1025,  3000,  4096,   8191,   16384,  16385,   30000,
                            32768, 32769, 65536, 99999, 262144, 262145, 500000, 1 << 20, 3 << 20};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < COUNT; j++) {
            check_move(sizes[i], sizes[j]);
        }
    }
}

static void test_growing_and_shrinking_by_steps(void **state) {
    (void)state;
    const size_t steps[] = {1, 7, 64, 1000, 40000};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        unsigned char *block = NULL;
        size_t size = 0;
        for (int n = 0; n < 1000; n++) {
            unsigned char *larger = opaque(realloc(block, size + steps[i]));
            assert_non_null(larger);
            block = larger;
            memset(block + size, n & 0xff, steps[i]);
            size += steps[i];
        }
        for (int n = 999; n > 0; n--) {
            assert_int_equal(block[size - 1], n & 0xff);
            assert_int_equal(block[size - steps[i]], n & 0xff);
            size -= steps[i];
            block = opaque(realloc(block, size));
            assert_non_null(block);
        }
        assert_int_equal(block[0], 0);
        free(block);
    }
}

static void test_shrinking_gives_memory_back(void **state) {
    (void)state;
    if (has_shadow_memory()) {
        skip();
    }
    enum { COUNT = 64 };
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = opaque(malloc(4 << 20));
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, 4 << 20);
    }
    size_t full = resident_bytes();
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = opaque(realloc(blocks[i], 1000));
        assert_non_null(blocks[i]);
    }
    malloc_trim(0);
    size_t shrunk = resident_bytes();
    for (size_t i = 0; i < COUNT; i++) {
        free(blocks[i]);
    }
    assert_true(shrunk < full / 2);
}

static void test_aligned_blocks_may_be_resized(void **state) {
    (void)state;
    for (size_t alignment = 16; alignment <= 65536; alignment *= 4) {
        unsigned char *block = opaque(aligned_alloc(alignment, alignment + 40));
        assert_non_null(block);
        fill_pattern(block, alignment + 40, alignment);
        block = opaque(realloc(block, 3 * alignment));
        assert_non_null(block);
        size_t kept = alignment + 40 < 3 * alignment ? alignment + 40 : 3 * alignment;
        assert_int_equal(check_pattern(block, kept, alignment), kept);
        block = opaque(realloc(block, alignment / 2));
        assert_non_null(block);
        assert_int_equal(check_pattern(block, alignment / 2, alignment), alignment / 2);
        free(block);
    }
}

static void test_reallocarray_multiplies_and_refuses_overflow(void **state) {
    (void)state;
    unsigned char *block = opaque(reallocarray(NULL, 10, 100));
    assert_non_null(block);
    assert_true(malloc_usable_size(block) >= 1000);
    fill_pattern(block, 1000, 5);
    const struct {
        size_t count;
        size_t size;
    } overflows[] = {
        {SIZE_MAX, 2}, {2, SIZE_MAX}, {(size_t)1 << 32, (size_t)1 << 32}, {SIZE_MAX / 16 + 2, 16}};
    for (size_t i = 0; i < sizeof overflows / sizeof overflows[0]; i++) {
        errno = 0;
        assert_null(opaque(
            reallocarray(block, opaque_size(overflows[i].count), opaque_size(overflows[i].size))));
        assert_int_equal(errno, ENOMEM);
        assert_int_equal(check_pattern(block, 1000, 5), 1000);
    }
    block = opaque(reallocarray(block, 50, 100));
    assert_non_null(block);
    assert_int_equal(check_pattern(block, 1000, 5), 1000);
    free(block);
}

static void test_success_keeps_errno(void **state) {
    (void)state;
    void *block = NULL;
    for (size_t size = 1; size < (size_t)8 << 20; size *= 2) {
        errno = EXDEV;
        block = opaque(realloc(block, size));
        assert_non_null(block);
        assert_int_equal(errno, EXDEV);
    }
    free(block);
}

int main(void) {
    expect_allocator();
    watchdog_start(120, "api/test_realloc");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_is_malloc),
        cmocka_unit_test(test_t31_size_zero_frees_and_gives_null),
        cmocka_unit_test(test_failure_keeps_the_old_block),
        cmocka_unit_test(test_content_survives_every_kind_of_move),
        cmocka_unit_test(test_growing_and_shrinking_by_steps),
        cmocka_unit_test(test_shrinking_gives_memory_back),
        cmocka_unit_test(test_aligned_blocks_may_be_resized),
        cmocka_unit_test(test_reallocarray_multiplies_and_refuses_overflow),
        cmocka_unit_test(test_success_keeps_errno),
    };
    return cmocka_run_group_tests_name("realloc and reallocarray", tests, NULL, NULL);
}
