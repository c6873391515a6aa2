#include "pages/recycle.h"

#include "os/memory.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "pages/returned.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { PIECES = 8, PIECE = 16, GAP = 1, WANTED = 600 }; /* more than neighbours are joined for */

static struct span *gaps[PIECES];

static void settle(void) {
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    page_heap_settle();
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
}

/* Dirty spans of PIECE slices, kept apart by gaps in use. */
static void scatter(void) {
    struct span *pieces[PIECES];
    purge_all(0);
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = page_heap_allocate(PIECE, 0);
        gaps[i] = page_heap_allocate(GAP, 0);
        memset((void *)pieces[i]->address, 7, span_size(pieces[i]));
    }
    for (int i = 0; i < PIECES; i++) {
        page_heap_free(pieces[i], SPAN_DIRTY);
    }
    settle();
}

/* From now on pages may go back to the system: what tests took before was not needed again. */
static void begin_to_purge(void) {
    options.purge = 1;
    store_relaxed(&returned_needed_bytes, 0);
}

static void free_gaps(void) {
    for (int i = 0; i < PIECES; i++) {
        page_heap_free(gaps[i], SPAN_DIRTY);
    }
}

static size_t dirty_slices(void) {
    return page_heap.dirty.slice_count;
}

static size_t recycle_from(struct span *span, size_t first) {
    struct span_part part = {span->address + first * SLICE_SIZE, span->slice_count - first};
    return recycle_into(span, part);
}

/* An emulator may have pages moved once, and no more. */
static void skip_emulated(void) {
    if (is_emulated()) {
        skip();
    }
}

/* The pages of scattered free spans become those of a span that none of them had room for. */
static void test_pages_come_from_dirty_spans(void **state) {
    (void)state;
    skip_emulated();
    scatter();
    size_t dirty = dirty_slices();
    assert_true(dirty >= PIECES * PIECE);
    struct span *span = page_heap_allocate(WANTED, 0);
    assert_true(span->is_zero);
    assert_int_equal(unit_resident((void *)span->address, span_size(span)), 0);
    recycle_from(span, PIECE);
    size_t received = unit_resident((void *)span->address, span_size(span));
    if (received == 0) { /* a kernel that cannot move */
        assert_int_equal(dirty_slices(), dirty);
        assert_true(span->is_zero);
    } else {
        assert_false(span->is_zero);
        assert_int_equal(unit_resident((void *)span->address, PIECE * SLICE_SIZE), 0);
        assert_true(received >= PIECES * PIECE * SLICE_SIZE);
        assert_int_equal(dirty - dirty_slices(), received / SLICE_SIZE);
    }
    page_heap_free(span, SPAN_DIRTY);
    free_gaps();
    assert_int_equal(unit_slices_in_use(), 0);
}

/* No more is taken than there is room for, and what a donor keeps stays dirty. */
static void test_takes_no_more_than_fits(void **state) {
    (void)state;
    skip_emulated();
    scatter();
    struct span *span = page_heap_allocate(WANTED, 0);
    size_t dirty = dirty_slices();
    struct span_part part = {span->address + PIECE * SLICE_SIZE, 3 * PIECE - 3};
    size_t moved = recycle_into(span, part);
    size_t received = unit_resident((void *)span->address, span_size(span)) / SLICE_SIZE;
    size_t inside = unit_resident((void *)part.start, part.slices * SLICE_SIZE) / SLICE_SIZE;
    assert_true(moved == 0 || moved == part.slices); /* 0: a kernel that cannot move */
    assert_int_equal(received, moved);
    assert_int_equal(inside, moved);
    assert_int_equal(dirty - dirty_slices(), received);
    page_heap_free(span, SPAN_DIRTY);
    free_gaps();
    assert_int_equal(unit_slices_in_use(), 0);
}

/* Who was never touched has nothing to give, and need not keep clean neighbours apart. */
static void test_untouched_become_clean(void **state) {
    (void)state;
    if (!mapping_may_move()) {
        skip(); /* nothing is taken */
    }
    scatter();
    size_t dirty = dirty_slices();
    enum { MANY = 16 * PIECES * PIECE }; /* more than joins it */
    struct span *bare = page_heap_allocate(MANY, 0);
    struct span *span = page_heap_allocate(MANY + PIECE, 0);
    page_heap_free(bare, SPAN_DIRTY);
    settle();
    assert_int_equal(dirty_slices(), dirty + MANY);
    begin_to_purge();
    recycle_from(span, 0);
    options.purge = 0;
    assert_true(dirty_slices() <= dirty);
    page_heap_free(span, SPAN_DIRTY);
    free_gaps();
    assert_int_equal(unit_slices_in_use(), 0);
}

/* What is not worth moving goes, no more than is about to be touched; but not where the program has
 * asked to keep what is free, or needs what goes again soon. */
static void test_what_does_not_move_goes(void **state) {
    (void)state;
    skip_emulated();
    enum { MANY = 16 * PIECES * PIECE };
    purge_all(0);
    struct span *span = page_heap_allocate(MANY / 2, 0);
    struct span *donor = page_heap_allocate(MANY, 0);
    uintptr_t start = donor->address;
    size_t half = span_size(donor) / 2;
    memset((void *)start, 7, half);
    page_heap_free(donor, SPAN_DIRTY);
    settle();
    size_t dirty = dirty_slices();
    recycle_from(span, 0); /* purge=0 */
    begin_to_purge();
    options.top_pad = 1;
    recycle_from(span, 0);
    options.top_pad = 0;
    options.trim_threshold = 1 << 30;
    recycle_from(span, 0);
    options.trim_threshold = OPTION_AUTO;
    add_relaxed(&returned_needed_bytes, 2 << 20); /* in this epoch */
    recycle_from(span, 0);
    subtract_relaxed(&returned_needed_bytes, 2 << 20);
    assert_int_equal(dirty_slices(), dirty);
    assert_int_equal(unit_resident((void *)start, half), half);
    recycle_from(span, MANY / 4);
    if (!mapping_may_move()) { /* of larger pages a part may be somebody's */
        assert_int_equal(dirty_slices(), dirty);
        options.purge = 0;
        page_heap_free(span, SPAN_DIRTY);
        skip();
    }
    assert_int_equal(dirty - dirty_slices(), MANY / 4); /* the high end: the low one is reused */
    recycle_from(span, 0);
    options.purge = 0;
    assert_int_equal(dirty - dirty_slices(), MANY / 4 + MANY / 2);
    assert_int_equal(unit_resident((void *)start, half), half / 2);
    assert_true(span->is_zero);
    page_heap_free(span, SPAN_DIRTY);
    assert_int_equal(unit_slices_in_use(), 0);
}

/* Of the system's pool nobody promises other pages for the place, and of a part of a huge page the
 * kernel says that it went, and leaves it there: who gets it must not take it for zero. */
static void test_pool_keeps_its_pages(void **state) {
    (void)state;
    if (!mapping_may_move()) {
        skip(); /* nothing is taken */
    }
    scatter();
    size_t dirty = dirty_slices();
    enum { MANY = 16 * PIECES * PIECE };
    struct span *bare = page_heap_allocate(MANY, HUGE_SIZE);
    struct span *span = page_heap_allocate(MANY, 0);
    uintptr_t start = bare->address;
    span_set_marks(start, start + MANY * SLICE_SIZE, MARK_POOL, true);
    page_heap_free(bare, SPAN_DIRTY);
    settle();
    begin_to_purge();
    recycle_from(span, 0);
    options.purge = 0;
    assert_int_equal(dirty_slices(), dirty + MANY);
    span_set_marks(start, start + MANY * SLICE_SIZE, MARK_POOL, false);
    page_heap_free(span, SPAN_DIRTY);
    free_gaps();
    assert_int_equal(unit_slices_in_use(), 0);
}

static void test_option(void **state) {
    (void)state;
    scatter();
    size_t dirty = dirty_slices();
    options.moves = 0;
    struct span *span = page_heap_allocate(WANTED, 0);
    recycle_from(span, 0);
    assert_int_equal(dirty_slices(), dirty);
    assert_true(span->is_zero);
    options.moves = 1;
    page_heap_free(span, SPAN_DIRTY);
    free_gaps();
}

static void recycle_and_check(unsigned number) {
    struct random random = {number + 1};
    struct span *own[8] = {NULL};
    for (size_t i = 0; i < scaled(400); i++) {
        struct span **entry = &own[random_below(&random, ARRAY_LENGTH(own))];
        if (*entry) {
            CHECK(check_pattern((void *)(*entry)->address, span_size(*entry),
                                (*entry)->address + number) == span_size(*entry),
                  "somebody else wrote to a span in use");
            page_heap_free(*entry, SPAN_DIRTY);
            *entry = NULL;
        } else {
            *entry = page_heap_allocate(random_below(&random, 100) + 1, 0);
            CHECK(*entry != NULL, "no memory");
            if ((*entry)->is_zero) {
                recycle_from(*entry, 0);
            }
            fill_pattern((void *)(*entry)->address, span_size(*entry), (*entry)->address + number);
        }
    }
    for (size_t i = 0; i < ARRAY_LENGTH(own); i++) {
        if (own[i]) {
            page_heap_free(own[i], SPAN_DIRTY);
        }
    }
}

static void test_threads(void **state) {
    (void)state;
    unit_run_threads(4, recycle_and_check);
    assert_int_equal(unit_slices_in_use(), 0);
}

int main(void) {
    unit_touch_single_pages();
    options.thp = THP_NEVER; /* an emulator refuses the former */
    options.purge = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_come_from_dirty_spans),
        cmocka_unit_test(test_takes_no_more_than_fits),
        cmocka_unit_test(test_untouched_become_clean),
        cmocka_unit_test(test_what_does_not_move_goes),
        cmocka_unit_test(test_pool_keeps_its_pages),
        cmocka_unit_test(test_option),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("recycle", tests, NULL, NULL);
}
