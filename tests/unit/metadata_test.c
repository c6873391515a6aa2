#include "pages/metadata.h"

#include "unit/unit.h"

enum { THREADS = 4, BLOCKS = 400 };

struct block {
    void *bytes;
    size_t size;
};

static struct block blocks[THREADS][BLOCKS];

/* Takes blocks of all sizes and alignments; each is zero, aligned and kept full of its pattern. */
static void take_blocks(unsigned number) {
    struct random random = {number + 1};
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = random_size(&random, i % 50 == 0 ? 200000 : 3000);
        size_t alignment = (size_t)1 << random_below(&random, 8);
        unsigned char *bytes = metadata_allocate(size, alignment);
        CHECK(bytes != NULL, "no memory for %zu bytes", size);
        CHECK((uintptr_t)bytes % alignment == 0, "%p is not a multiple of %zu", (void *)bytes,
              alignment);
        for (size_t j = 0; j < size; j++) {
            CHECK(bytes[j] == 0, "byte %zu of %zu is not zero", j, size);
        }
        fill_pattern(bytes, size, number * BLOCKS + i);
        blocks[number][i] = (struct block){bytes, size};
    }
}

static void test_blocks_are_disjoint(void **state) {
    (void)state;
    size_t mapped_before = metadata_mapped_bytes();
    size_t total = 0;
    unit_run_threads(THREADS, take_blocks);
    for (unsigned number = 0; number < THREADS; number++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            struct block *block = &blocks[number][i];
            total += block->size;
            assert_int_equal(check_pattern(block->bytes, block->size, number * BLOCKS + i),
                             block->size);
        }
    }
    size_t mapped = metadata_mapped_bytes() - mapped_before;
    assert_true(mapped + (1 << 20) >= total); /* the rest of a block mapped before */
    assert_true(mapped <= 2 * total + (1 << 20));
}

static void test_mapped_bytes(void **state) {
    (void)state;
    size_t before = metadata_mapped_bytes();
    assert_non_null(metadata_allocate(3 << 20, 64));
    size_t after = metadata_mapped_bytes();
    assert_true(after - before >= 3 << 20);
    assert_true(after - before <= 4 << 20);
}

static void test_no_memory(void **state) {
    (void)state;
    size_t before = metadata_mapped_bytes();
    assert_null(metadata_allocate((size_t)1 << 62, 64));
    assert_int_equal(metadata_mapped_bytes(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_disjoint),
        cmocka_unit_test(test_mapped_bytes),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}
