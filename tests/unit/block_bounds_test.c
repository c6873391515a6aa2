#include "objects/block_bounds.h"

#include "objects/allocate.h"
#include "objects/arena.h"
#include "os/memory.h"
#include "unit/unit.h"

static void expect(const void *pointer, const void *start, size_t size, unsigned object_class) {
    struct block_bounds bounds = block_bounds_of(pointer);
    assert_int_equal(bounds.start, (uintptr_t)start);
    assert_int_equal(bounds.size, size);
    assert_int_equal(bounds.object_class, object_class);
}

static const size_t sizes[] = {8, 16, 100, 1024, 5000, 40000, MEDIUM_SIZE_MAX};

/* Of any byte, also in a later slice of the slab, and of what is free. */
static void test_blocks_of_slabs(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        char *block = allocate(sizes[i]);
        size_t size = usable_size(block);
        unsigned object_class = size_class_of(size);
        expect(block, block, size, object_class);
        expect(block + 1, block, size, object_class);
        expect(block + size / 2, block, size, object_class);
        expect(block + size - 1, block, size, object_class);
        assert_int_not_equal(block_bounds_of(block + size).start, (uintptr_t)block);
        release(block);
        if (size < SLICE_SIZE) {
            expect(block + size - 1, block, size, object_class);
        }
    }
}

/* What a slab's blocks leave over at its end is no block's place. */
static void test_rest_of_a_slab(void **state) {
    (void)state;
    unsigned found = 0;
    for (unsigned i = 1; i <= MEDIUM_CLASS_LAST; i++) {
        char *block = allocate(size_classes[i].size);
        unsigned object_class = span_class_of(block); /* a young cache may round up */
        const struct size_class *class = &size_classes[object_class];
        size_t bytes = class->slices * SLICE_SIZE;
        if (class->capacity > 1 && class->capacity * class->size < bytes) {
            char *slab = (char *)span_of_block(block)->address;
            expect(slab + bytes - 1, NULL, 0, object_class);
            found++;
        }
        release(block);
    }
    assert_true(found > 10);
}

static void test_large_blocks(void **state) {
    (void)state;
    size_t size = 40 * SLICE_SIZE;
    char *block = allocate(size);
    for (size_t place = 0; place < size; place += SLICE_SIZE / 2) {
        expect(block + place, block, size, CLASS_LARGE);
    }
    expect(block + size - 1, block, size, CLASS_LARGE);
    release(block);
    assert_int_equal(block_bounds_of(block + size / 2).size, 0);
}

static void test_no_blocks(void **state) {
    static char variable[64];
    char *mapped = memory_map(memory_page_size());
    expect(NULL, NULL, 0, 0);
    expect(variable, NULL, 0, 0);
    expect(&state, NULL, 0, 0);
    expect(mapped + 16, NULL, 0, 0);
    expect((void *)16, NULL, 0, 0);
    expect((void *)UINTPTR_MAX, NULL, 0, 0);
    memory_unmap(mapped, memory_page_size());
}

/* Their blocks are found by the arena's own map. */
static void test_blocks_of_arenas(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char *block = arena_allocate_entering(arena, (struct arena_request){.size = 100}, NULL);
    expect(block, NULL, 0, CLASS_ARENA);
    expect(block + 20, NULL, 0, CLASS_ARENA);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_of_slabs),  cmocka_unit_test(test_rest_of_a_slab),
        cmocka_unit_test(test_large_blocks),     cmocka_unit_test(test_no_blocks),
        cmocka_unit_test(test_blocks_of_arenas),
    };
    return cmocka_run_group_tests_name("block_bounds", tests, NULL, NULL);
}
