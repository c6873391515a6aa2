#include "watch/check_zones.h"

#include "unit/unit.h"

enum { FRONT = 32, SIZE = 100, PLAIN_SIZE = 300, FIRST_CHANGE = 'x' };

static unsigned char memory[2 * FILLED_SIZE_MAX];

static struct check_record record_of(size_t size) {
    return (struct check_record){.block = (uintptr_t)memory + FRONT, .size = size, .front = FRONT};
}

static struct check_record fresh(size_t plain_size) {
    struct check_record record = record_of(SIZE);
    memset(memory, 0, sizeof memory);
    check_zones_write(&record, plain_size);
    return record;
}

/* Changes a byte at a place seen from the block: whether that is found, where, and only once. */
static void expect_change(ptrdiff_t place, size_t plain_size, enum check_fault fault) {
    struct check_record record = fresh(plain_size);
    unsigned char *byte = memory + FRONT + place;
    uintptr_t changed = 0;
    *byte ^= FIRST_CHANGE;
    assert_int_equal(check_zones_look(&record, plain_size, &changed), fault);
    if (fault) {
        assert_int_equal(changed, (uintptr_t)byte);
    }
    assert_int_equal(check_zones_look(&record, plain_size, &changed), FAULT_NONE);
}

static void test_each_byte_of_the_zones(void **state) {
    (void)state;
    for (ptrdiff_t i = 1; i <= ZONE_SIZE; i++) {
        expect_change(-i, PLAIN_SIZE, FAULT_UNDERRUN);
    }
    for (ptrdiff_t i = 0; i < ZONE_BEHIND_MAX; i++) {
        expect_change(SIZE + i, PLAIN_SIZE, FAULT_OVERRUN);
    }
    expect_change(-ZONE_SIZE - 1, PLAIN_SIZE, FAULT_NONE);
    expect_change(SIZE + ZONE_BEHIND_MAX, PLAIN_SIZE, FAULT_NONE);
}

/* The zone ends with the plain block. */
static void test_short_zone(void **state) {
    (void)state;
    expect_change(SIZE + ZONE_SIZE - 1, FRONT + SIZE + ZONE_SIZE, FAULT_OVERRUN);
    expect_change(SIZE + ZONE_SIZE, FRONT + SIZE + ZONE_SIZE, FAULT_NONE);
}

static void test_the_block_is_the_programs(void **state) {
    (void)state;
    struct check_record record = fresh(PLAIN_SIZE);
    uintptr_t changed;
    for (size_t i = 0; i < SIZE; i++) {
        assert_int_equal(memory[FRONT + i], 0);
    }
    memset(memory + FRONT, FIRST_CHANGE, SIZE);
    assert_int_equal(check_zones_look(&record, PLAIN_SIZE, &changed), FAULT_NONE);
}

/* Of several bytes the one next to the block is told. */
static void test_next_to_the_block(void **state) {
    (void)state;
    struct check_record record = fresh(PLAIN_SIZE);
    uintptr_t changed;
    memset(memory + FRONT - 8, FIRST_CHANGE, 4);
    memset(memory + FRONT + SIZE + 3, FIRST_CHANGE, 4);
    assert_int_equal(check_zones_look(&record, PLAIN_SIZE, &changed), FAULT_UNDERRUN);
    assert_int_equal(changed, (uintptr_t)memory + FRONT - 5);
    assert_int_equal(check_zones_look(&record, PLAIN_SIZE, &changed), FAULT_OVERRUN);
    assert_int_equal(changed, (uintptr_t)memory + FRONT + SIZE + 3);
}

static void expect_freed(size_t size, size_t place, size_t most, enum check_fault fault) {
    struct check_record record = record_of(size);
    uintptr_t changed = 0;
    memset(memory, 0, sizeof memory);
    check_zones_fill_freed(&record);
    assert_int_equal(check_zones_look_freed(&record, most, &changed), FAULT_NONE);
    assert_int_equal(memory[FRONT + size], 0);
    memory[FRONT + place] ^= FIRST_CHANGE;
    assert_int_equal(check_zones_look_freed(&record, most, &changed), fault);
    if (fault) {
        assert_int_equal(changed, (uintptr_t)memory + FRONT + place);
    }
    assert_int_equal(check_zones_look_freed(&record, most, &changed), FAULT_NONE);
}

static void test_freed_blocks(void **state) {
    (void)state;
    expect_freed(SIZE, 0, SIZE_MAX, FAULT_USE_AFTER_FREE);
    expect_freed(SIZE, SIZE - 1, SIZE_MAX, FAULT_USE_AFTER_FREE);
    expect_freed(SIZE, SIZE, SIZE_MAX, FAULT_NONE);
    expect_freed(SIZE, 63, 64, FAULT_USE_AFTER_FREE); /* a short look */
    expect_freed(SIZE, 64, 64, FAULT_NONE);
    size_t large = FILLED_SIZE_MAX + 500;
    expect_freed(large, FILLED_SIZE_MAX - 1, SIZE_MAX, FAULT_USE_AFTER_FREE);
    expect_freed(large, FILLED_SIZE_MAX, SIZE_MAX, FAULT_NONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_byte_of_the_zones),
        cmocka_unit_test(test_short_zone),
        cmocka_unit_test(test_the_block_is_the_programs),
        cmocka_unit_test(test_next_to_the_block),
        cmocka_unit_test(test_freed_blocks),
    };
    return cmocka_run_group_tests_name("check_zones", tests, NULL, NULL);
}
