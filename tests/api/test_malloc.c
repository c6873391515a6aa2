/* malloc, calloc and the alignment of what they return (C11 7.22.3, POSIX.1-2024). */
#include "support/support.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/names.h"

static size_t guaranteed_alignment(size_t size) {
    const char *option = getenv("PRIMALLOC_MIN_ALIGN");
    bool sixteen = option != NULL && strcmp(option, "16") == 0;
    return size > 8 || sixteen ? 16 : 8;
}

static void test_t31_zero_bytes_give_unique_blocks(void **state) {
    (void)state;
    enum { COUNT = 100 };
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = opaque(i % 2 == 0 ? malloc(0) : calloc(i % 4 == 1 ? 0 : 7, i % 4 == 1 ? 7 : 0));
        assert_non_null(blocks[i]);
        for (size_t j = 0; j < i; j++) {
            assert_ptr_not_equal(blocks[i], blocks[j]);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        free(blocks[i]);
    }
}

static void test_t29_impossible_sizes_fail_with_enomem(void **state) {
    (void)state;
    const size_t impossible[] = {
        SIZE_MAX,         SIZE_MAX - 1,     SIZE_MAX - 8,     SIZE_MAX - 16, SIZE_MAX - 4095,
        SIZE_MAX - 65536, SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 2, SIZE_MAX / 2,  (size_t)1 << 62,
    };
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        errno = 0;
        assert_null(opaque(malloc(opaque_size(impossible[i]))));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(opaque(calloc(opaque_size(1), impossible[i])));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(opaque(realloc(NULL, opaque_size(impossible[i]))));
        assert_int_equal(errno, ENOMEM);
    }
}

static void test_success_keeps_errno(void **state) {
    (void)state;
    for (size_t size = 0; size < (size_t)8 << 20; size = size * 2 + 1) {
        errno = EXDEV;
        void *block = opaque(malloc(size));
        assert_non_null(block);
        assert_int_equal(errno, EXDEV);
        free(block);
    }
}

static void test_calloc_refuses_overflow(void **state) {
    (void)state;
    const struct {
        size_t count;
        size_t size;
    } overflows[] = {
        {SIZE_MAX, 2},
        {2, SIZE_MAX},
        {SIZE_MAX, SIZE_MAX},
        {(size_t)1 << 32, (size_t)1 << 32},
        {((size_t)1 << 32) + 1, (size_t)1 << 32},
        {SIZE_MAX / 16 + 1, 16},
        {SIZE_MAX / 4096 + 2, 4096},
        {3, SIZE_MAX / 3 + 1},
    };
    for (size_t i = 0; i < sizeof overflows / sizeof overflows[0]; i++) {
        errno = 0;
        assert_null(
            opaque(calloc(opaque_size(overflows[i].count), opaque_size(overflows[i].size))));
        assert_int_equal(errno, ENOMEM);
    }
}

static bool is_zero(const unsigned char *bytes, size_t size) {
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* T34: memory that was dirtied, freed and perhaps purged comes back as zeros. */
static void test_t34_calloc_zeroes_recycled_memory(void **state) {
    (void)state;
    const size_t sizes[] = {1,    7,     8,     9,      24,     100,    512,     1000,
                            4096, 10000, 33000, 100000, 262144, 300000, 1 << 20, 5 << 20};
    enum { BLOCKS = 16 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int round = 0; round < 4; round++) {
            unsigned char *blocks[BLOCKS];
            for (size_t j = 0; j < BLOCKS; j++) {
                blocks[j] = opaque(malloc(sizes[i]));
                assert_non_null(blocks[j]);
                memset(blocks[j], 0xa5, malloc_usable_size(blocks[j]));
            }
            for (size_t j = 0; j < BLOCKS; j++) {
                free(blocks[j]);
            }
            if (round == 2) {
                malloc_trim(0);
            }
            for (size_t j = 0; j < BLOCKS; j++) {
                blocks[j] = opaque(calloc(1, sizes[i]));
                assert_non_null(blocks[j]);
                assert_true(is_zero(blocks[j], sizes[i]));
            }
            for (size_t j = 0; j < BLOCKS; j++) {
                free(blocks[j]);
            }
        }
    }
}

static void test_calloc_multiplies(void **state) {
    (void)state;
    for (size_t count = 1; count < 3000; count = count * 3 + 1) {
        for (size_t size = 1; size < 3000; size = size * 2 + 1) {
            unsigned char *block = opaque(calloc(count, size));
            assert_non_null(block);
            assert_true(malloc_usable_size(block) >= count * size);
            assert_true(is_zero(block, count * size));
            memset(block, 0xff, count * size);
            free(block);
        }
    }
}

/* T32 */
static void test_t32_alignment_of_every_size(void **state) {
    (void)state;
    enum { BLOCKS = 5 };
    for (size_t size = 1; size <= 4096; size++) {
        void *blocks[BLOCKS];
        for (size_t i = 0; i < BLOCKS; i++) {
            void *block = i == 1   ? opaque(calloc(size, 1))
                          : i == 2 ? opaque(realloc(NULL, size))
                          : i == 3 ? opaque(reallocarray(NULL, 1, size))
                          : i == 4 ? opaque(realloc(malloc(1), size))
                                   : opaque(malloc(size));
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % guaranteed_alignment(size), 0);
            blocks[i] = block;
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
    }
    for (size_t size = 4096; size < (size_t)64 << 20; size += size / 3 + 1) {
        void *block = opaque(malloc(size));
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 16, 0);
        free(block);
    }
}

static void test_blocks_do_not_overlap(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static struct {
        unsigned char *block;
        size_t size;
    } live[COUNT];
    struct random random = {42};
    for (uint64_t i = 0; i < COUNT; i++) {
        live[i].size = random_size(&random, 100000);
        live[i].block = opaque(malloc(live[i].size));
        assert_non_null(live[i].block);
        fill_pattern(live[i].block, live[i].size, i);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(check_pattern(live[i].block, live[i].size, i), live[i].size);
        free(live[i].block);
    }
}

/* A gigabyte is a legal request; only what is touched costs memory. */
static void test_very_large_blocks(void **state) {
    (void)state;
    size_t before = resident_bytes();
    size_t size = (size_t)3 << 30;
    unsigned char *block = opaque(malloc(size));
    if (block == NULL) {
        assert_int_equal(errno, ENOMEM);
        skip();
    }
    block[0] = 1;
    block[size / 2] = 2;
    block[size - 1] = 3;
    assert_true(resident_bytes() < before + ((size_t)64 << 20));
    assert_int_equal(block[0] + block[size / 2] + block[size - 1], 6);
    free(block);
}

/* More than a span can count, where the kernel gives any address space for nothing. */
static void test_blocks_beyond_all_memory(void **state) {
    (void)state;
    for (size_t size = (size_t)32 << 40; size <= (size_t)112 << 40; size += (size_t)16 << 40) {
        void *block = opaque(malloc(size));
        assert_true(block == NULL || malloc_usable_size(block) >= size);
        free(block);
    }
}

static void test_freed_large_memory_is_reused_or_returned(void **state) {
    (void)state;
    if (has_shadow_memory()) {
        skip();
    }
    size_t before = resident_bytes();
    for (int i = 0; i < 200; i++) {
        size_t size = (size_t)(4 + i % 13) << 20;
        unsigned char *block = opaque(malloc(size));
        assert_non_null(block);
        memset(block, i, size);
        free(block);
    }
    assert_true(resident_bytes() < before + ((size_t)96 << 20));
}

int main(void) {
    expect_allocator();
    watchdog_start(120, "api/test_malloc");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t31_zero_bytes_give_unique_blocks),
        cmocka_unit_test(test_t29_impossible_sizes_fail_with_enomem),
        cmocka_unit_test(test_success_keeps_errno),
        cmocka_unit_test(test_calloc_refuses_overflow),
        cmocka_unit_test(test_t34_calloc_zeroes_recycled_memory),
        cmocka_unit_test(test_calloc_multiplies),
        cmocka_unit_test(test_t32_alignment_of_every_size),
        cmocka_unit_test(test_blocks_do_not_overlap),
        cmocka_unit_test(test_very_large_blocks),
        cmocka_unit_test(test_freed_large_memory_is_reused_or_returned),
        /* the last: an emulator takes what they leave for resident, and so for the best to use */
        cmocka_unit_test(test_blocks_beyond_all_memory),
    };
    return cmocka_run_group_tests_name("malloc and calloc", tests, NULL, NULL);
}
