#include "pages/span.h"

#include "os/memory.h"
#include "unit/unit.h"

/* Two chunks' worth of address space that nobody else uses and nobody touches: descriptors lie
 * outside it. */
static const size_t region_size = (size_t)2 << CHUNK_SHIFT;
static uintptr_t region;

static int cover_region(void **state) {
    (void)state;
    region = (uintptr_t)memory_reserve(region_size + SLICE_SIZE);
    region = (region + SLICE_SIZE - 1) & ~(uintptr_t)(SLICE_SIZE - 1);
    return region == 0 || !address_map_cover(region, region_size) ||
           !span_cover(region, region_size);
}

static void *block_at(uintptr_t slice, uintptr_t offset) {
    return (void *)(region + slice * SLICE_SIZE + offset);
}

static void test_where_the_heap_never_was(void **state) {
    (void)state;
    assert_null(span_of_slice(0));
    assert_null(span_of_slice((uintptr_t)1 << PRIM_ADDRESS_BITS));
    assert_null(span_of_slice(UINTPTR_MAX));
    assert_int_equal(span_class_of(NULL), 0);
    assert_int_equal(span_class_of(&state), 0);
    assert_int_equal(span_class_of((void *)UINTPTR_MAX), 0);
}

static void test_each_slice_has_a_descriptor(void **state) {
    (void)state;
    for (uintptr_t slice = 0; slice < region_size / SLICE_SIZE; slice += 97) {
        uintptr_t address = region + slice * SLICE_SIZE;
        struct span *span = span_of_slice(address);
        assert_non_null(span);
        assert_int_equal((uintptr_t)span % PRIM_CACHE_LINE, 0);
        assert_ptr_equal(span_of_slice(address + SLICE_SIZE - 1), span);
        assert_ptr_not_equal(span_of_slice(address + SLICE_SIZE), span);
        assert_int_equal(span_state(span), SPAN_NONE);
    }
    struct span *first = span_of_slice(region);
    assert_true(span_cover(region, region_size));
    assert_ptr_equal(span_of_slice(region), first);
    assert_false(span_cover(((uintptr_t)1 << PRIM_ADDRESS_BITS) - SLICE_SIZE, 2 * SLICE_SIZE));
}

static void test_create_writes_the_boundary_tag(void **state) {
    (void)state;
    static const size_t counts[] = {1, 2, 3, 100};
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        struct span *span = span_create(region, counts[i], SPAN_BUSY);
        assert_ptr_equal(span, span_of_slice(region));
        assert_int_equal(span->address, region);
        assert_int_equal(span->slice_count, counts[i]);
        assert_int_equal(span_state(span), SPAN_BUSY);
        assert_int_equal(span->head_offset, 0);
        assert_int_equal(span_size(span), counts[i] * SLICE_SIZE);
        assert_int_equal(span_end(span), region + counts[i] * SLICE_SIZE);
        struct span *last = span_of_slice(span_end(span) - SLICE_SIZE);
        assert_int_equal(last->head_offset, counts[i] - 1);
    }
}

/* Publishes spans that begin at the given slice, one of each kind, and checks all the ways to
 * find them. */
static void check_slab_at(uintptr_t first, size_t count) {
    struct span *span = span_create(region + first * SLICE_SIZE, count, SPAN_BUSY);
    span_publish(span, SPAN_SLAB, 40);
    assert_int_equal(span_state(span), SPAN_SLAB);
    for (uintptr_t i = 0; i < count; i++) {
        assert_ptr_equal(span_of_block(block_at(first + i, 0)), span);
        assert_ptr_equal(span_of_block(block_at(first + i, SLICE_SIZE - 8)), span);
        assert_int_equal(span_class_of(block_at(first + i, 16)), 40);
        assert_int_equal(span_of_slice(region + (first + i) * SLICE_SIZE)->object_class, 40);
        assert_int_equal(span_of_slice(region + (first + i) * SLICE_SIZE)->head_offset, i);
    }
    assert_int_equal(span_class_of(block_at(first + count, 0)), 0);
    span_withdraw(span);
    assert_int_equal(span_state(span), SPAN_BUSY);
    for (uintptr_t i = 0; i < count; i++) {
        assert_int_equal(span_class_of(block_at(first + i, 0)), 0);
        assert_int_equal(span_of_slice(region + (first + i) * SLICE_SIZE)->object_class, 0);
    }
}

static void check_large_at(uintptr_t first, size_t count) {
    struct span *span = span_create(region + first * SLICE_SIZE, count, SPAN_BUSY);
    span_publish(span, SPAN_LARGE, 98);
    assert_int_equal(span_state(span), SPAN_LARGE);
    assert_ptr_equal(span_of_block(block_at(first, 0)), span);
    assert_int_equal(span_class_of(block_at(first, 0)), 98);
    for (uintptr_t i = 1; i <= count; i++) {
        assert_int_equal(span_class_of(block_at(first + i, 0)), 0);
    }
    span_withdraw(span);
    assert_int_equal(span_class_of(block_at(first, 0)), 0);
    assert_int_equal(span->object_class, 0);
    assert_int_equal(span_state(span), SPAN_BUSY);
}

static void test_publish_and_withdraw(void **state) {
    (void)state;
    for (size_t count = 1; count <= 20; count++) {
        check_slab_at(10, count);
        check_large_at(10, count);
    }
}

static void test_across_chunks(void **state) {
    (void)state;
    uintptr_t boundary = ((region >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT;
    uintptr_t slice = (boundary - region) / SLICE_SIZE;
    assert_true(slice > 0);
    check_slab_at(slice - 1, 16);
    check_large_at(slice - 1, 16);
    check_slab_at(slice, 3);
}

/* Without an address map the descriptors answer. */
static void test_class_without_map(void **state) {
    (void)state;
    static _Atomic uint8_t only[1];
    _Atomic uint8_t *bytes = address_map_bytes;
    uintptr_t mask = address_map_mask;
    address_map_bytes = only;
    address_map_mask = 0;
    check_slab_at(50, 5);
    check_large_at(50, 5);
    assert_int_equal(span_class_of(NULL), 0);
    assert_int_equal(span_class_of(&state), 0);
    assert_int_equal(only[0], 0);
    address_map_bytes = bytes;
    address_map_mask = mask;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_the_heap_never_was),
        cmocka_unit_test(test_each_slice_has_a_descriptor),
        cmocka_unit_test(test_create_writes_the_boundary_tag),
        cmocka_unit_test(test_publish_and_withdraw),
        cmocka_unit_test(test_across_chunks),
        cmocka_unit_test(test_class_without_map),
    };
    return cmocka_run_group_tests_name("span", tests, cover_region, NULL);
}
