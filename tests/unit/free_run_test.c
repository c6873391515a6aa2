#include "pages/free_run.h"

#include "base/bits.h"
#include "os/memory.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { PARTS = 3 };

/* Neighbours of these sizes and in these states, and none free beside them. */
static uintptr_t make(const size_t sizes[PARTS], const enum span_state states[PARTS]) {
    size_t total = 0;
    for (int i = 0; i < PARTS; i++) {
        total += sizes[i];
    }
    struct span *whole = page_heap_allocate(total + 2, 0);
    assert_non_null(whole);
    assert_true(whole->is_zero);
    uintptr_t start = whole->address + SLICE_SIZE;
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    struct span *span = page_heap_split(whole, 1);
    struct span *parts[PARTS];
    for (int i = 0; i < PARTS; i++) {
        parts[i] = span;
        span = page_heap_split(span, sizes[i]);
    }
    for (int i = 0; i < PARTS; i++) {
        if (states[i] != SPAN_BUSY) {
            page_heap_insert(parts[i], states[i]);
        }
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    return start;
}

static void touch(uintptr_t start, size_t slices) {
    memset((void *)start, 1, slices * SLICE_SIZE);
}

/* first: which one is clean */
static void serve_together(size_t part, size_t wanted, int first) {
    const size_t sizes[PARTS] = {part, part, part};
    enum span_state states[PARTS] = {SPAN_DIRTY, SPAN_DIRTY, SPAN_DIRTY};
    states[first] = SPAN_CLEAN;
    uintptr_t start = make(sizes, states);
    touch(start + (first == 0) * part * SLICE_SIZE, part);
    size_t clean = page_heap.clean.slice_count;
    size_t left = PARTS * part - wanted;
    struct span *span = page_heap_allocate(wanted, 0);
    assert_int_equal(span->address, start + (first != 2) * left * SLICE_SIZE);
    assert_false(span->is_zero);
    assert_int_equal(page_heap.clean.slice_count, clean - part + (first == 1 ? 0 : left));
    struct span *rest = span_of_slice(first != 2 ? start : span_end(span));
    assert_int_equal(span_state(rest), first == 1 ? SPAN_DIRTY : SPAN_CLEAN);
    assert_int_equal(rest->slice_count, left);
    page_heap_allocate(left, 0); /* none is left for the next */
}

static void test_neighbours_serve_together(void **state) {
    (void)state;
    for (int first = 0; first < PARTS; first++) {
        serve_together(100, 256, first);
        serve_together(30, 72, first);
    }
}

static void test_mostly_clean_ones_do_not(void **state) {
    (void)state;
    const size_t sizes[PARTS] = {90, 40, 90};
    const enum span_state states[PARTS] = {SPAN_CLEAN, SPAN_DIRTY, SPAN_CLEAN};
    make(sizes, states);
    size_t dirty = page_heap.dirty.slice_count;
    struct span *span = page_heap_allocate(180, 0);
    assert_true(span->is_zero);
    assert_int_equal(page_heap.dirty.slice_count, dirty);
}

/* What was clean has the pages of another, so that no more are resident than before. */
static void test_pages_are_moved_to_what_is_clean(void **state) {
    (void)state;
    const size_t sizes[PARTS] = {120, 60, 10};
    const enum span_state states[PARTS] = {SPAN_DIRTY, SPAN_CLEAN, SPAN_BUSY};
    options.moves = 1;
    struct span *donor = page_heap_allocate(80, 0);
    struct span *trial = page_heap_allocate(1, 0);
    if (!mapping_move(donor->address, trial->address, SLICE_SIZE) || !mapping_may_move()) {
        skip();
    }
    uintptr_t start = make(sizes, states);
    uintptr_t fresh = start + 120 * SLICE_SIZE;
    memset((void *)donor->address, 7, span_size(donor));
    page_heap_free(donor, SPAN_DIRTY);
    size_t resident = unit_resident((void *)donor->address, 80 * SLICE_SIZE);
    struct span *span = page_heap_allocate(180, 0);
    options.moves = 0;
    assert_int_equal(span->address, start);
    assert_int_equal(unit_resident((void *)fresh, 60 * SLICE_SIZE), 60 * SLICE_SIZE);
    assert_int_equal(unit_resident((void *)donor->address, 80 * SLICE_SIZE),
                     resident - 60 * SLICE_SIZE);
    assert_int_equal(*(char *)fresh, 7);
    assert_int_equal(donor->slice_count, 20);
    assert_int_equal(span_state(donor), SPAN_DIRTY);
}

/* So does what has an aligned place, be it not as large as one that has it wherever it begins. */
static void test_an_aligned_place_serves(void **state) {
    (void)state;
    enum { SLICES = 100, ALIGNMENT = 64 };
    for (int i = 0; i < 2; i++) {
        struct span *whole = page_heap_allocate(SLICES + 10, ALIGNMENT * SLICE_SIZE);
        uintptr_t place = whole->address;
        size_t mapped = page_heap.mapped_slices;
        touch(place, i * whole->slice_count);
        page_heap_free(whole, i ? SPAN_DIRTY : SPAN_CLEAN);
        struct span *span = page_heap_allocate(SLICES, ALIGNMENT * SLICE_SIZE);
        assert_int_equal(span->address % (ALIGNMENT * SLICE_SIZE), 0);
        assert_true(i == 0 || span->address == place);
        assert_int_equal(page_heap.mapped_slices, mapped);
        page_heap_allocate(10, 0); /* what is left */
    }
}

/* Whether 70 dirty slices at a multiple of 64, with clean ones before and behind them, serve 100 at
 * such a multiple. */
static bool serve_aligned(size_t behind) {
    enum { SLICES = 100, ALIGNMENT = 64, DIRTY = 70 };
    struct span *before =
        page_heap_allocate(ALIGNMENT + DIRTY + behind + 1, ALIGNMENT * SLICE_SIZE);
    page_heap_cut(before, ALIGNMENT);
    struct span *dirty = span_of_slice(span_end(before));
    page_heap_cut(dirty, DIRTY);
    struct span *clean = span_of_slice(span_end(dirty));
    page_heap_cut(clean, behind);
    touch(dirty->address, DIRTY);
    page_heap_free(before, SPAN_CLEAN);
    page_heap_free(dirty, SPAN_DIRTY);
    page_heap_free(clean, SPAN_CLEAN);
    struct span *span = page_heap_allocate(SLICES, ALIGNMENT * SLICE_SIZE);
    assert_int_equal(span->address % (ALIGNMENT * SLICE_SIZE), 0);
    assert_int_equal(span->is_zero, span != dirty);
    return span == dirty;
}

static void test_an_aligned_place_of_neighbours_serves(void **state) {
    (void)state;
    assert_true(serve_aligned(40));
    assert_false(serve_aligned(20));
}

/* A block that grows has room behind it, but none of clean pages where dirty ones suffice. */
static void test_room_is_not_needed(void **state) {
    (void)state;
    struct span *before = page_heap_allocate(100, 0);
    page_heap_allocate(1, 0);
    touch(before->address, 100);
    page_heap_free(before, SPAN_DIRTY);
    struct span *span = page_heap_allocate_for(90, 30, 0, 0);
    assert_ptr_equal(span, before);
    assert_int_equal(span->slice_count, 100);
    page_heap_free(span, SPAN_DIRTY);
    assert_int_equal(page_heap_allocate_for(70, 10, 0, 0)->slice_count, 80);
}

int main(void) {
    unit_touch_single_pages();
    options.thp = THP_NEVER;
    options.purge = false;
    options.moves = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_is_not_needed),
        cmocka_unit_test(test_an_aligned_place_serves),
        cmocka_unit_test(test_neighbours_serve_together),
        cmocka_unit_test(test_an_aligned_place_of_neighbours_serves),
        cmocka_unit_test(test_mostly_clean_ones_do_not),
        cmocka_unit_test(test_pages_are_moved_to_what_is_clean),
    };
    return cmocka_run_group_tests_name("free runs", tests, NULL, NULL);
}
