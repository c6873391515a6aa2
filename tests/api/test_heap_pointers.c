/* Which pointers are blocks of a heap, what a heap counts of blocks in odd places, and what becomes
 * of the blocks of a heap that is deleted or full. */
#include "support/support.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "primalloc.h"
#include "support/names.h"

/* A preloaded library brings its names at run time only. */
#if !defined PRIM_TEST_PREFIXED && !defined PRIM_TEST_STATIC
#pragma weak prim_heap_new
#pragma weak prim_heap_new_in
#pragma weak prim_heap_delete
#pragma weak prim_heap_destroy
#pragma weak prim_heap_set_limit
#pragma weak prim_heap_malloc
#pragma weak prim_heap_malloc_aligned_at
#pragma weak prim_heap_realloc
#pragma weak prim_heap_of
#pragma weak prim_heap_contains
#pragma weak prim_heap_counts
#pragma weak prim_heap_visit_blocks
#endif

enum { LENT_SIZE = 1 << 20, SHIFT_MOST = 48 };

static struct prim_heap_counts counts_of(prim_heap_t *heap) {
    struct prim_heap_counts counts;
    prim_heap_counts(heap, &counts);
    return counts;
}

/* Pointers into a block are no blocks: neither known, nor resized, nor freed. */
static void check_only_start_counts(prim_heap_t *heap, unsigned char *block) {
    size_t usable = malloc_usable_size(block);
    size_t blocks = counts_of(heap).blocks;
    for (size_t within = 1; within < SHIFT_MOST && within < usable; within++) {
        assert_false(prim_heap_contains(heap, block + within));
        assert_null(prim_heap_of(block + within));
    }
    size_t steps[] = {8, 16, 24};
    for (size_t i = 0; i < 3 && steps[i] < usable; i++) {
        void *inside = opaque(block + steps[i]);
        free(inside);
        errno = 0;
        assert_null(realloc(inside, 4000));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(prim_heap_realloc(heap, inside, 4000)); /* which is in no heap */
        assert_int_equal(errno, ENOMEM);
    }
    assert_int_equal(counts_of(heap).blocks, blocks);
    assert_int_equal(malloc_usable_size(block), usable);
    assert_true(prim_heap_contains(heap, block));
}

static void test_only_its_start_is_the_block(void **state) {
    static char variable[64];
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    errno = 0;
    assert_null(prim_heap_realloc(heap, variable + 16, 100)); /* as realloc */
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(counts_of(heap).blocks, 0);
    for (size_t i = 0; i < 1000; i++) {
        void *block = prim_heap_realloc(heap, malloc(0), 100); /* of nothing, but a block */
        assert_ptr_equal(prim_heap_of(block), heap);
        free(block);
    }
    for (size_t size = 1; size < 200000; size = size * 3 + 7) {
        unsigned char *block = prim_heap_malloc(heap, size);
        fill_pattern(block, size, size);
        check_only_start_counts(heap, block);
        assert_int_equal(check_pattern(block, size, size), size);
    }
    prim_heap_destroy(heap);
}

struct sought {
    const void *block;
    size_t size;
    size_t found;
};

static bool seek_block(const prim_heap_t *heap, void *block, size_t size, void *argument) {
    struct sought *sought = argument;
    (void)heap;
    sought->found += block == sought->block && size == sought->size;
    return true;
}

static void test_blocks_at_an_offset(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    for (size_t offset = 0; offset < SHIFT_MOST; offset++) {
        for (size_t size = 1; size < 100000; size = size * 9 + 3) {
            size_t before = counts_of(heap).bytes;
            unsigned char *block = prim_heap_malloc_aligned_at(heap, size, 64, offset);
            assert_int_equal(((uintptr_t)block + offset) % 64, 0);
            fill_pattern(block, size, offset);
            check_only_start_counts(heap, block);
            assert_false(prim_heap_contains(heap, block - 1));
            size_t usable = malloc_usable_size(block);
            assert_int_equal(counts_of(heap).bytes, before + usable);
            struct sought sought = {block, usable, 0};
            prim_heap_visit_blocks(heap, seek_block, &sought);
            assert_int_equal(sought.found, 1);
            assert_int_equal(check_pattern(block, size, offset), size);
            if (offset % 2) {
                free(block); /* its place serves plain blocks as well */
                assert_int_equal(counts_of(heap).bytes, before);
                block = prim_heap_malloc(heap, size);
                assert_true(prim_heap_contains(heap, block));
            }
        }
    }
    prim_heap_destroy(heap);
}

static void grow_orphan(prim_heap_t *heap, size_t size) {
    char *block = prim_heap_malloc(heap, 711);
    assert_non_null(block);
    fill_pattern(block, 711, 5);
    prim_heap_delete(heap);
    assert_null(prim_heap_of(block));
    block = realloc(block, size);
    assert_non_null(block);
    assert_null(prim_heap_of(block));
    assert_true(malloc_usable_size(block) >= size);
    assert_int_equal(check_pattern(block, 711, 5), 711);
    free(block);
}

static void test_a_deleted_heaps_blocks_grow_elsewhere(void **state) {
    (void)state;
    static _Alignas(16384) char memory[LENT_SIZE];
    for (size_t size = 800; size < 2000000; size *= 3) {
        prim_heap_t *heap = prim_heap_new_in(memory, sizeof memory); /* free again each time */
        assert_non_null(heap);
        grow_orphan(heap, size);
        heap = prim_heap_new();
        prim_heap_set_limit(heap, 1000);
        grow_orphan(heap, size);
    }
}

static bool holds(prim_heap_t *heap, size_t size, size_t alignment, size_t offset) {
    errno = 0;
    char *block = prim_heap_malloc_aligned_at(heap, size, alignment, offset);
    assert_int_equal(((uintptr_t)block + (block ? offset : 0)) % alignment, 0);
    assert_int_equal(errno, block ? 0 : ENOMEM);
    free(block);
    return block != NULL;
}

/* As primalloc.h says of prim_heap_new_in. */
static void test_what_a_heap_in_own_memory_holds(void **state) {
    (void)state;
    enum { PLAIN_MOST = 256 << 10, ALIGNED_MOST = 240 << 10, ALIGNMENT_MOST = 4096 };
    static _Alignas(16384) char memory[LENT_SIZE];
    prim_heap_t *heap = prim_heap_new_in(memory, sizeof memory);
    for (size_t alignment = 1; alignment <= ALIGNMENT_MOST; alignment *= 2) {
        size_t most = alignment > 16 ? ALIGNED_MOST : PLAIN_MOST;
        assert_true(holds(heap, most, alignment, 0));
        assert_false(holds(heap, most + 1, alignment, 0));
        for (size_t offset = 0; offset < SHIFT_MOST; offset++) {
            assert_true(holds(heap, most - 15, alignment, offset));
        }
    }
    assert_false(holds(heap, 0, (size_t)2 * ALIGNMENT_MOST, 0));
    prim_heap_destroy(heap);
}

/* There is no room for another block, but the old one is room enough. */
static void test_a_block_of_a_full_heap_shrinks(void **state) {
    (void)state;
    for (size_t size = 100; size < 3000000; size = size * 3 + 7) {
        for (size_t less = 1; less < size; less = less * 9 + 1) {
            prim_heap_t *heap = prim_heap_new();
            char *block = prim_heap_malloc(heap, size);
            fill_pattern(block, size, size);
            prim_heap_set_limit(heap, malloc_usable_size(block));
            assert_null(prim_heap_malloc(heap, 1));
            block = realloc(block, less);
            assert_non_null(block);
            assert_ptr_equal(prim_heap_of(block), heap);
            assert_int_equal(check_pattern(block, less, size), less);
            assert_null(prim_heap_realloc(heap, block, size * 2));
            free(block);
            assert_int_equal(counts_of(heap).bytes, 0);
            prim_heap_destroy(heap);
        }
    }
}

int main(void) {
    expect_allocator();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_its_start_is_the_block),
        cmocka_unit_test(test_blocks_at_an_offset),
        cmocka_unit_test(test_a_deleted_heaps_blocks_grow_elsewhere),
        cmocka_unit_test(test_what_a_heap_in_own_memory_holds),
        cmocka_unit_test(test_a_block_of_a_full_heap_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
