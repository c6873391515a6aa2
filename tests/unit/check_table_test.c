#include "watch/check_table.h"

#include "unit/unit.h"

enum { MANY = 20000, STEP = 48, BASE = 0x100000 }; /* more than the first buckets, in odd places */

static uintptr_t place(size_t number) {
    return BASE + number * STEP;
}

static void test_find_what_was_added(void **state) {
    (void)state;
    assert_null(check_table_find(place(0)));
    struct check_record *record = check_table_add(place(0));
    assert_non_null(record);
    assert_int_equal(record->block, place(0));
    assert_false(record->is_freed);
    assert_ptr_equal(check_table_find(place(0)), record);
    assert_null(check_table_find(place(0) + 1));
    assert_int_equal(check_table_count(), 1);
    check_table_remove(record);
    assert_null(check_table_find(place(0)));
    assert_int_equal(check_table_count(), 0);
}

/* What a record held is gone when it is used again. */
static void test_records_are_used_again(void **state) {
    (void)state;
    struct check_record *record = check_table_add(place(1));
    record->is_freed = true;
    record->size = 77;
    check_table_remove(record);
    struct check_record *next = check_table_add(place(2));
    assert_ptr_equal(next, record);
    assert_false(next->is_freed);
    assert_int_equal(next->size, 0);
    check_table_remove(next);
}

static size_t visited;
static uint64_t sum;

static void count(struct check_record *record, void *context) {
    assert_ptr_equal(context, &visited);
    visited++;
    sum += record->block;
}

/* Each is found while the table grows, and visited once. */
static void test_many(void **state) {
    (void)state;
    uint64_t expected = 0;
    for (size_t i = 0; i < MANY; i++) {
        assert_non_null(check_table_add(place(i)));
        expected += place(i);
    }
    assert_int_equal(check_table_count(), MANY);
    visited = 0;
    sum = 0;
    check_table_visit(count, &visited);
    assert_int_equal(visited, MANY);
    assert_int_equal(sum, expected);
    for (size_t i = 0; i < MANY; i++) {
        struct check_record *record = check_table_find(place(i));
        assert_non_null(record);
        assert_int_equal(record->block, place(i));
        check_table_remove(record);
    }
    assert_int_equal(check_table_count(), 0);
}

static void quarantine(size_t number, size_t size) {
    struct check_record *record = check_table_add(place(number));
    record->size = size;
    record->is_freed = true;
    check_table_quarantine(record);
}

/* What lies before an aligned block counts as the block does. */
static void test_room_before_blocks_counts(void **state) {
    (void)state;
    struct check_record *record = check_table_add(place(0));
    record->front = QUARANTINE_SIZE + 1;
    check_table_quarantine(record);
    assert_ptr_equal(check_table_expired(), record);
    check_table_remove(record);
    assert_null(check_table_expired());
}

/* Nothing leaves before there is too much; then the oldest first, until there is no more. */
static void test_quarantine(void **state) {
    (void)state;
    enum { SIZE = 1 << 20, FITTING = QUARANTINE_SIZE / SIZE - 1 }; /* records take room as well */
    for (size_t i = 0; i < FITTING; i++) {
        quarantine(i, SIZE);
        assert_null(check_table_expired());
    }
    for (size_t i = FITTING; i < 3 * FITTING; i++) {
        quarantine(i, SIZE);
        struct check_record *record = check_table_expired();
        if (i == FITTING) { /* this one still fits, but for the records */
            assert_non_null(record);
        }
        assert_int_equal(record->block, place(i - FITTING));
        assert_null(check_table_expired());
        assert_ptr_equal(check_table_find(record->block), record); /* until it is removed */
        check_table_remove(record);
    }
    quarantine(3 * FITTING, QUARANTINE_SIZE + 1); /* drives all others out, and itself */
    for (size_t i = 2 * FITTING; i <= 3 * FITTING; i++) {
        struct check_record *record = check_table_expired();
        assert_int_equal(record->block, place(i));
        check_table_remove(record);
    }
    assert_null(check_table_expired());
    assert_int_equal(check_table_count(), 0);
    quarantine(0, SIZE); /* an empty queue takes a new one */
    assert_null(check_table_expired());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_what_was_added),
        cmocka_unit_test(test_records_are_used_again),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_room_before_blocks_counts),
        cmocka_unit_test(test_quarantine),
    };
    return cmocka_run_group_tests_name("check_table", tests, NULL, NULL);
}
