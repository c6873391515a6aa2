#include "pages/quick.h"

#include "unit/unit.h"

enum { SPANS = 200 };

static struct span spans[SPANS];
static struct quick_lists lists;

static struct span *span_at(size_t i, size_t slice_count) {
    spans[i].address = (i + 1) * SLICE_SIZE;
    spans[i].slice_count = (uint32_t)slice_count;
    return &spans[i];
}

static void assert_empty(void) {
    assert_int_equal(lists.occupied, 0);
    assert_int_equal(lists.slice_count, 0);
    assert_int_equal(lists.span_count, 0);
}

/* Just the size, the newest first, and nothing else. */
static void test_take(void **state) {
    (void)state;
    quick_insert(&lists, span_at(0, 20));
    quick_insert(&lists, span_at(1, 20));
    quick_insert(&lists, span_at(2, 63));
    assert_int_equal(lists.slice_count, 103);
    assert_true(quick_has_small(&lists));
    assert_null(quick_take(&lists, 19, SLICE_SIZE));
    assert_null(quick_take(&lists, 21, SLICE_SIZE));
    assert_ptr_equal(quick_take(&lists, 20, SLICE_SIZE), &spans[1]);
    assert_ptr_equal(quick_take(&lists, 20, SLICE_SIZE), &spans[0]);
    assert_null(quick_take(&lists, 20, SLICE_SIZE));
    assert_ptr_equal(quick_take(&lists, 63, SLICE_SIZE), &spans[2]);
    assert_empty();
}

/* The larger ones share a list, of which the newest are looked at; of a size the newest first. */
static void test_larger(void **state) {
    (void)state;
    enum { TRIED = 32 };
    quick_insert(&lists, span_at(0, QUICK_MAX + 1));
    for (size_t i = 1; i <= TRIED; i++) {
        quick_insert(&lists, span_at(i, i % 2 ? 5000 : 6000));
    }
    assert_false(quick_has_small(&lists));
    assert_null(quick_take(&lists, QUICK_MAX + 1, SLICE_SIZE)); /* behind those */
    assert_ptr_equal(quick_take(&lists, 5000, SLICE_SIZE), &spans[TRIED - 1]);
    assert_ptr_equal(quick_take(&lists, 6000, SLICE_SIZE), &spans[TRIED]);
    assert_ptr_equal(quick_take(&lists, QUICK_MAX + 1, SLICE_SIZE), &spans[0]);
    for (size_t i = TRIED - 2; i > 0; i--) { /* the order of the others is as it was */
        assert_ptr_equal(quick_pop(&lists, 0), &spans[i]);
    }
    assert_empty();
}

static void test_alignment(void **state) {
    (void)state;
    quick_insert(&lists, span_at(0, 16)); /* at slice 1 */
    assert_null(quick_take(&lists, 16, 2 * SLICE_SIZE));
    quick_insert(&lists, span_at(1, 16)); /* at slice 2 */
    assert_ptr_equal(quick_take(&lists, 16, 2 * SLICE_SIZE), &spans[1]);
    assert_ptr_equal(quick_take(&lists, 16, SLICE_SIZE), &spans[0]);
    assert_empty();
}

/* Each list loses one in turn: none stays for ever because others come. */
static void test_evict(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        quick_insert(&lists, span_at(i, 20 + i));
        quick_insert(&lists, span_at(i + 3, 20 + i));
    }
    unsigned left[3] = {2, 2, 2};
    for (unsigned turn = 0; turn < 6; turn++) {
        struct span *span = quick_evict(&lists);
        left[span->slice_count - 20]--;
        assert_int_equal(left[span->slice_count - 20], 1 - turn / 3);
    }
    assert_empty();
}

/* Any order of all: what goes in comes out once. */
static void test_random(void **state) {
    (void)state;
    struct random random = unit_random();
    bool is_in[SPANS] = {false};
    size_t count = 0;
    for (size_t i = 0; i < scaled(100000); i++) {
        size_t at = random_below(&random, SPANS);
        struct span *span = NULL;
        if (!is_in[at]) {
            quick_insert(&lists, span_at(at, 1 + random_below(&random, 80)));
            is_in[at] = true;
            count++;
        } else if (random_below(&random, 2)) {
            span = quick_take(&lists, spans[at].slice_count, SLICE_SIZE);
            CHECK(span ? span->slice_count == spans[at].slice_count
                       : spans[at].slice_count > QUICK_MAX,
                  "a span of %u slices is not found", spans[at].slice_count);
        } else {
            span = quick_evict(&lists);
        }
        if (span) {
            CHECK(is_in[span - spans], "a span comes out twice");
            is_in[span - spans] = false;
            count--;
        }
        CHECK(lists.span_count == count, "%u spans, not %zu", lists.span_count, count);
    }
    while (lists.span_count) {
        quick_evict(&lists);
    }
    assert_empty();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take),      cmocka_unit_test(test_larger),
        cmocka_unit_test(test_alignment), cmocka_unit_test(test_evict),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("quick lists", tests, NULL, NULL);
}
