#include "objects/size_class.h"

#include "pages/address_map.h"
#include "unit/unit.h"

/* The class of the least size that holds the given one, by search. */
static unsigned least_class(size_t size) {
    for (unsigned i = 1; i <= CLASS_COUNT; i++) {
        if (size_classes[i].size >= size) {
            return i;
        }
    }
    return 0;
}

static void test_every_size(void **state) {
    (void)state;
    unsigned expected = 1;
    for (size_t size = 1; size <= MEDIUM_SIZE_MAX; size++) {
        expected += size > size_classes[expected].size;
        CHECK(size_class_of(size) == expected, "%zu bytes: class %u, expected %u", size,
              size_class_of(size), expected);
        CHECK(size <= 128 || size_class_by_arithmetic(size) == expected,
              "%zu bytes by arithmetic: class %u", size, size_class_by_arithmetic(size));
    }
    assert_int_equal(size_class_of(0), CLASS_OF_8);
    assert_int_equal(expected, MEDIUM_CLASS_LAST);
    assert_int_equal(size_class_of(EIGHTHS_SIZE_MAX), EIGHTHS_CLASS_LAST);
}

/* Greater ones, where they have a class. */
static void test_sparse_sizes(void **state) {
    (void)state;
    for (size_t size = MEDIUM_SIZE_MAX + 1; size <= SPARSE_SIZE_MAX; size++) {
        CHECK(size_class_sparse(size) == least_class(size), "%zu bytes: class %u", size,
              size_class_sparse(size));
    }
}

static void test_table(void **state) {
    (void)state;
    assert_int_equal(size_classes[0].size, 0);
    assert_int_equal(size_classes[CLASS_OF_8].size, 8);
    assert_int_equal(size_classes[CLASS_OF_16].size, 16);
    assert_int_equal(size_classes[CLASS_COUNT].size, SPARSE_SIZE_MAX);
    for (unsigned i = 1; i <= CLASS_COUNT; i++) {
        const struct size_class *class = &size_classes[i];
        size_t slab = (size_t) class->slices * SLICE_SIZE;
        CHECK(class->size > size_classes[i - 1].size, "class %u is out of order", i);
        CHECK(i == CLASS_OF_8 || class->size % 16 == 0, "%u bytes", class->size);
        CHECK((size_t) class->capacity * class->size <= slab, "class %u: slab too small", i);
        CHECK(slab - (size_t) class->capacity * class->size < class->size,
              "class %u: room for one more block", i);
    }
}

/* Blocks are as aligned as their sizes: each alignment up to a slice has a class soon after any
 * size, which is what aligned allocations look for. */
static void test_alignments(void **state) {
    (void)state;
    for (size_t alignment = 16; alignment <= SLICE_SIZE; alignment *= 2) {
        for (size_t size = alignment; size <= MEDIUM_SIZE_MAX - SLICE_SIZE; size += alignment) {
            unsigned object_class = size_class_of(size);
            while (object_class <= CLASS_COUNT &&
                   size_classes[object_class].size % alignment != 0) {
                object_class++;
            }
            CHECK(object_class <= CLASS_COUNT, "no class for %zu bytes at %zu", size, alignment);
            CHECK(size_classes[object_class].size < size + bits_max(2 * alignment, size / 2),
                  "%zu bytes at %zu get %u", size, alignment, size_classes[object_class].size);
        }
    }
}

static void test_mean_internal_waste(void **state) {
    (void)state;
    double used = 0;
    double taken = 0;
    for (size_t size = 1; size <= 16384; size++) {
        used += (double)size;
        taken += size_classes[size_class_of(size)].size;
    }
    double waste = 1 - used / taken;
    printf("mean internal waste up to 16 KiB: %.2f %%\n", 100 * waste);
    assert_true(waste < 0.05);
}

static void test_mean_tail_waste(void **state) {
    (void)state;
    double tails = 0;
    for (unsigned i = 1; i <= CLASS_COUNT; i++) {
        double slab = (double)size_classes[i].slices * SLICE_SIZE;
        double tail = slab - (double)size_classes[i].capacity * size_classes[i].size;
        tails += tail / slab;
    }
    printf("mean tail waste: %.2f %%\n", 100 * tails / CLASS_COUNT);
    assert_true(tails / CLASS_COUNT <= 0.015);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_sparse_sizes),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_mean_internal_waste),
        cmocka_unit_test(test_mean_tail_waste),
    };
    return cmocka_run_group_tests_name("size class", tests, NULL, NULL);
}
