#include "pages/purge.h"

#include <time.h>

#include "base/bits.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/page_heap.h"
#include "settings/options.h"
#include "unit/unit.h"

/* A block is 2 MiB, the unit that goes first. */
enum { BLOCK = (2 << 20) / SLICE_SIZE, SLICES = 4 * BLOCK };

static const size_t never_ms = 3600000;

/* Slices that go back together: whole pages. */
static size_t grain(void) {
    return bits_max(memory_page_size(), SLICE_SIZE) / SLICE_SIZE;
}

/* A free heap with nothing dirty, in an epoch that has just begun. */
static void start_clean(void) {
    options.purge = 1;
    options.purge_delay = 0;
    purge_all(0);
    purge_tick();
    assert_int_equal(page_heap.dirty.slice_count, 0);
}

/* Makes slice_count slices dirty, all of whose pages are resident; returns where. */
static void *make_dirty(size_t slice_count) {
    struct span *span = page_heap_allocate(slice_count, (size_t)BLOCK * SLICE_SIZE);
    CHECK(span != NULL, "no memory");
    void *bytes = (void *)span->address;
    memset(bytes, 0xdd, span_size(span));
    page_heap_free(span, SPAN_DIRTY);
    return bytes;
}

static bool is_zero(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void test_purge_all(void **state) {
    (void)state;
    start_clean();
    size_t size = (size_t)SLICES * SLICE_SIZE;
    void *bytes = make_dirty(SLICES);
    assert_int_equal(unit_resident(bytes, size), size);
    assert_int_equal(page_heap.dirty.slice_count, SLICES);
    assert_int_equal(purge_all(0), size);
    assert_int_equal(unit_resident(bytes, size), 0);
    assert_int_equal(page_heap.dirty.slice_count, 0);
    assert_true(is_zero(bytes, size));
    assert_int_equal(purge_all(0), 0);
}

/* What purge_all says is what the system got, and what it was to keep is still there. */
static void test_purge_all_but(void **state) {
    (void)state;
    start_clean();
    size_t size = (size_t)SLICES * SLICE_SIZE;
    size_t kept = size / 4;
    void *bytes = make_dirty(SLICES);
    size_t purged = purge_all(kept);
    assert_int_equal(purged, size - kept);
    assert_int_equal(unit_resident(bytes, size), kept);
    assert_int_equal(page_heap.dirty.slice_count * SLICE_SIZE, kept);
    assert_int_equal(purge_all(SIZE_MAX), 0);
    assert_int_equal(purge_all(0), kept);
}

static void test_memory_in_use_is_left_alone(void **state) {
    (void)state;
    start_clean();
    struct span *parts[4];
    struct span *whole = page_heap_allocate(SLICES, (size_t)BLOCK * SLICE_SIZE);
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    parts[0] = whole;
    for (int i = 0; i < 3; i++) {
        parts[i + 1] = page_heap_split(parts[i], SLICES / 4);
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    for (int i = 0; i < 4; i++) {
        fill_pattern((void *)parts[i]->address, span_size(parts[i]), (uint64_t)i);
    }
    page_heap_free(parts[0], SPAN_DIRTY);
    page_heap_free(parts[2], SPAN_DIRTY);
    assert_int_equal(purge_all(0), (size_t)SLICES / 2 * SLICE_SIZE);
    for (int i = 1; i < 4; i += 2) {
        size_t size = span_size(parts[i]);
        assert_int_equal(check_pattern((void *)parts[i]->address, size, (uint64_t)i), size);
        page_heap_free(parts[i], SPAN_DIRTY);
    }
}

/* Where nobody touched anything, more and more goes with a call: none for each 16 MiB, nor a cut,
 * whose descriptors would take more memory than goes. */
static void test_bare_memory_goes_at_once(void **state) {
    (void)state;
    enum { BATCHES = 512 };
    struct span *span = is_emulated() ? NULL : page_heap_allocate((size_t)BATCHES * 8 * BLOCK, 0);
    if (!span) {
        skip();
    }
    *(char *)span->address = 1;
    page_heap_free(span, SPAN_DIRTY);
    uint64_t before = load_relaxed(&memory_counts.purge_calls);
    assert_int_equal(purge_all(0), memory_page_size());
    assert_true(load_relaxed(&memory_counts.purge_calls) - before < BATCHES / 8);
}

/* Purged is what was idle for a whole epoch: the least that was dirty in it. */
static void test_epochs(void **state) {
    (void)state;
    start_clean();
    make_dirty(SLICES);
    purge_tick(); /* its epoch began without dirty slices */
    assert_int_equal(page_heap.dirty.slice_count, SLICES);
    struct span *span = page_heap_allocate(BLOCK, (size_t)BLOCK * SLICE_SIZE);
    page_heap_free(span, SPAN_DIRTY);
    purge_tick(); /* a quarter was needed, three were idle */
    assert_int_equal(page_heap.dirty.slice_count, SLICES / 4);
    purge_tick(); /* now the last quarter was idle as well */
    assert_int_equal(page_heap.dirty.slice_count, 0);
}

/* Many spans in a row, each of so many slices, with a grain in use after each. */
struct row {
    struct span *parts[128];
    size_t count;
};

static struct row make_row(const size_t *sizes, size_t count) {
    struct row row = {{NULL}, 0};
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += sizes[i] + grain();
    }
    struct span *rest = page_heap_allocate(total, (size_t)BLOCK * SLICE_SIZE);
    assert_non_null(rest);
    memset((void *)rest->address, 0xdd, span_size(rest));
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    for (size_t i = 0; i < count; i++) {
        struct span *fence = page_heap_split(rest, sizes[i]);
        row.parts[row.count++] = rest;
        row.parts[row.count++] = fence;
        rest = i + 1 < count ? page_heap_split(fence, grain()) : NULL;
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    return row;
}

/* Frees the spans, which are every second part, or what is between them. */
static void free_row(const struct row *row, size_t first) {
    for (size_t i = first; i < row->count; i += 2) {
        purge_free(row->parts[i], SPAN_DIRTY);
    }
}

static size_t resident_in(uintptr_t address, size_t slice_count) {
    return unit_resident((void *)address, slice_count * SLICE_SIZE) / SLICE_SIZE;
}

static size_t end_window(void) {
    bool has_young;
    return purge_end_window(false, &has_young);
}

/* What is idle by number goes as whole 2 MiB, from the largest span and from its high end; a piece
 * goes only when nothing whole is left, and a whole one is not cut for the sake of a few slices. */
static void test_whole_blocks_first(void **state) {
    (void)state;
    start_clean();
    const size_t small = 20;
    const size_t rest = BLOCK - small - 3 * grain(); /* so that what follows is aligned */
    const size_t sizes[] = {4 * BLOCK, small, rest, 2 * BLOCK, 2 * small};
    enum { COUNT = ARRAY_LENGTH(sizes) };
    uintptr_t starts[COUNT];
    struct row row = make_row(sizes, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        starts[i] = row.parts[2 * i]->address;
    }
    options.purge_delay = never_ms;
    free_row(&row, 0);
    page_heap.mapped_slices += 16 * BLOCK; /* a heap that may hold huge pages */
    page_heap.dirty_low_water = BLOCK + BLOCK / 2;
    options.purge_delay = 0;
    purge_tick();
    assert_int_equal(resident_in(starts[0], 4 * BLOCK), 3 * BLOCK);
    assert_int_equal(resident_in(starts[0], 3 * BLOCK), 3 * BLOCK);
    assert_int_equal(resident_in(starts[3], 2 * BLOCK), 2 * BLOCK);
    page_heap.dirty_low_water = 4 * BLOCK;
    purge_tick(); /* three of the first span, one of the second: nothing in between */
    assert_int_equal(resident_in(starts[0], 4 * BLOCK), 0);
    assert_int_equal(resident_in(starts[1], small), small);
    assert_int_equal(resident_in(starts[2], rest), rest);
    assert_int_equal(resident_in(starts[4], 2 * small), 2 * small);
    assert_int_equal(resident_in(starts[3], 2 * BLOCK), BLOCK);
    page_heap.mapped_slices -= 16 * BLOCK;
    free_row(&row, 1);
    purge_all(0);
    assert_int_equal(resident_in(starts[0], 7 * BLOCK + 2 * small + 2 * grain()), 0);
}

/* One call never gives back much: many idle spans go in many calls, none is forgotten, and what is
 * needed meanwhile stays. */
static void test_visits_are_short(void **state) {
    (void)state;
    start_clean();
    enum { COUNT = 64 };
    size_t sizes[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        sizes[i] = (1 + i % 5) * grain();
    }
    struct row row = make_row(sizes, COUNT);
    options.purge_delay = never_ms;
    free_row(&row, 0);
    size_t dirty = page_heap.dirty.slice_count;
    page_heap.dirty_low_water = dirty;
    options.purge_delay = 0;
    purge_tick();
    options.purge_delay = never_ms;
    assert_true(page_heap.dirty.slice_count < dirty);
    unsigned visits = 1;
    for (size_t before = dirty; load_relaxed(&purge_is_due); visits++) {
        assert_true(before - page_heap.dirty.slice_count <= 4 * 5 * grain());
        before = page_heap.dirty.slice_count;
        purge_tick();
        assert_true(page_heap.dirty.slice_count < before);
        if (visits == 8) { /* a span that is needed all the time, of the smallest */
            struct span *span = page_heap_allocate(grain(), 0);
            page_heap_free(span, SPAN_DIRTY);
        }
    }
    assert_true(visits >= COUNT / 4);
    assert_int_equal(page_heap.dirty.slice_count, grain());
    free_row(&row, 1);
    purge_all(0);
}

/* A window returns what was dirty when it began and was not touched since, and nothing else. */
static void test_windows(void **state) {
    (void)state;
    start_clean();
    const size_t length = 2 * BLOCK - grain();
    const size_t sizes[] = {length, length, length};
    struct row row = make_row(sizes, 3);
    uintptr_t starts[3] = {row.parts[0]->address, row.parts[2]->address, row.parts[4]->address};
    purge_free(row.parts[0], SPAN_DIRTY);
    purge_open_window();
    purge_free(row.parts[2], SPAN_DIRTY);
    assert_int_equal(end_window(), length * SLICE_SIZE);
    assert_int_equal(resident_in(starts[0], length), 0);
    assert_int_equal(resident_in(starts[1], length), length);
    for (int i = 0; i < 3; i++) { /* taken and freed in each window */
        struct span *span = page_heap_allocate(length, 0);
        assert_int_equal(span->address, starts[1]);
        purge_free(span, SPAN_DIRTY);
        bool has_young;
        assert_int_equal(purge_end_window(false, &has_young), 0);
        assert_true(has_young);
    }
    purge_free(row.parts[4], SPAN_DIRTY);
    assert_int_equal(end_window(), length * SLICE_SIZE);
    assert_int_equal(resident_in(starts[1], length), 0);
    assert_int_equal(resident_in(starts[2], length), length);
    assert_int_equal(end_window(), length * SLICE_SIZE);
    assert_int_equal(end_window(), 0);
    free_row(&row, 1);
    assert_int_equal(end_window(), 0);
    assert_int_equal(end_window(), 3 * grain() * SLICE_SIZE);
    assert_int_equal(purge_returnable_bytes(), 0);
}

/* Ages are told apart over half of the generations that a number has room for: what was freed more
 * of them ago must not look young to a window that begins now. */
static void test_window_after_many_epochs(void **state) {
    (void)state;
    enum { MANY = INT16_MAX + 5000 };
    start_clean();
    for (int i = 0; i < MANY; i++) {
        purge_tick();
    }
    make_dirty(SLICES);
    purge_open_window();
    bool has_young;
    assert_int_equal(purge_end_window(false, &has_young), (size_t)SLICES * SLICE_SIZE);
    assert_false(has_young);
}

/* An epoch of the program's own calls within a window takes nothing that was freed in the epoch,
 * even if as much was idle. */
static void test_epochs_within_windows(void **state) {
    (void)state;
    start_clean();
    purge_open_window();
    const size_t length = 2 * BLOCK - grain();
    const size_t sizes[] = {length, length};
    struct row row = make_row(sizes, 2);
    uintptr_t starts[2] = {row.parts[0]->address, row.parts[2]->address};
    purge_free(row.parts[2], SPAN_DIRTY);
    purge_tick();
    purge_free(row.parts[0], SPAN_DIRTY);
    page_heap.dirty_low_water = BLOCK;
    purge_tick();
    assert_int_equal(resident_in(starts[0], length), length);
    assert_int_equal(resident_in(starts[1], length), length - BLOCK);
    free_row(&row, 1);
}

/* Pages that were never touched are free already: giving them back is giving nothing. */
static void test_purge_all_tells_what_was_there(void **state) {
    (void)state;
    start_clean();
    struct span *span = page_heap_allocate(SLICES, (size_t)BLOCK * SLICE_SIZE);
    page_heap_free(span, SPAN_DIRTY);
    assert_int_equal(purge_returnable_bytes(), (size_t)SLICES * SLICE_SIZE);
    assert_int_equal(purge_all(0), 0);
    assert_int_equal(purge_returnable_bytes(), 0);
    span = page_heap_allocate(SLICES, (size_t)BLOCK * SLICE_SIZE);
    char *bytes = (char *)span->address;
    memset(bytes, 0xdd, span_size(span));
    memory_purge(bytes, span_size(span) / 2);
    page_heap_free(span, SPAN_DIRTY);
    assert_int_equal(purge_all(0), (size_t)SLICES * SLICE_SIZE / 2);
}

static void test_busy_memory_never_goes(void **state) {
    (void)state;
    start_clean();
    make_dirty(SLICES);
    for (int i = 0; i < 10; i++) {
        struct span *span = page_heap_allocate(SLICES, 0);
        assert_false(span->is_zero);
        page_heap_free(span, SPAN_DIRTY);
        purge_tick();
        assert_int_equal(page_heap.dirty.slice_count, SLICES);
    }
}

static void test_delay(void **state) {
    (void)state;
    start_clean();
    options.purge_delay = never_ms;
    make_dirty(SLICES);
    for (int i = 0; i < 5; i++) {
        purge_tick();
        assert_int_equal(page_heap.dirty.slice_count, SLICES);
    }
    options.purge_delay = 30;
    purge_tick(); /* this epoch is over, whatever it found */
    make_dirty(SLICES);
    uint64_t start = machine_clock_ms();
    while (page_heap.dirty.slice_count && machine_clock_ms() - start < 10000) {
        purge_tick();
    }
    assert_int_equal(page_heap.dirty.slice_count, 0);
    assert_true(machine_clock_ms() - start >= 20);
}

/* Whoever frees much through purge_free sees to the epochs, too: every sixteen spans. What was
 * freed before the last look but one is purged by then. */
static void test_frees_look_at_the_clock(void **state) {
    (void)state;
    start_clean();
    struct span *spans[64];
    for (size_t i = 0; i < ARRAY_LENGTH(spans); i++) {
        spans[i] = page_heap_allocate(SLICES, (size_t)1 << 16);
        assert_non_null(spans[i]);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(spans); i++) {
        purge_free(spans[i], SPAN_DIRTY);
    }
    assert_int_equal(unit_slices_in_use(), 0);
    assert_true(page_heap.dirty.slice_count <= 2 * 16 * SLICES);
}

static void test_switched_off(void **state) {
    (void)state;
    start_clean();
    options.purge = 0;
    make_dirty(SLICES);
    for (int i = 0; i < 5; i++) {
        purge_tick();
    }
    assert_int_equal(page_heap.dirty.slice_count, SLICES);
}

/* Where the kernel refuses, as it does for locked pages, nothing is said to be purged; a single one
 * keeps the block that it is in, not what lies below it. */
static void test_locked_pages(void **state) {
    (void)state;
    start_clean();
    size_t size = (size_t)SLICES * SLICE_SIZE;
    void *bytes = make_dirty(SLICES);
    if (is_emulated() || !unit_lock_pages(bytes, size)) {
        skip(); /* this process may not lock so much */
    }
    assert_int_equal(purge_all(0), 0);
    assert_int_equal(page_heap.dirty.slice_count, SLICES);
    assert_int_equal(unit_resident(bytes, size), size);
    assert_true(unit_unlock_pages(bytes, size));
    assert_int_equal(purge_all(0), size);
    char *page = (char *)make_dirty((size_t)16 * SLICES) + 8 * size;
    assert_true(unit_lock_pages(page, 1));
    purge_all(0);
    assert_int_equal(page_heap.dirty.slice_count, BLOCK);
    assert_true(unit_unlock_pages(page, 1));
}

/* Frees a span as a block's end does. */
static void free_filled(struct span *span) {
    memset((void *)span->address, 0xdd, span_size(span));
    purge_free(span, SPAN_DIRTY);
}

static struct span *take_grains(size_t count) {
    struct span *span = page_heap_allocate(count * grain(), 0);
    assert_non_null(span);
    return span;
}

/* options.trim_threshold: below it nothing goes, however idle; above it all, but for top_pad. */
static void test_trim_threshold(void **state) {
    (void)state;
    start_clean();
    options.trim_threshold = 4 * grain() * SLICE_SIZE;
    struct span *spans[8];
    for (size_t i = 0; i < ARRAY_LENGTH(spans); i++) {
        spans[i] = take_grains(1);
    }
    for (size_t i = 0; i < 4; i++) {
        free_filled(spans[i]);
        purge_tick(); /* an epoch each, with a delay of 0 */
        purge_open_window();
        assert_int_equal(end_window(), 0);
        assert_int_equal(page_heap.dirty.slice_count, (i + 1) * grain());
    }
    free_filled(spans[4]);
    assert_int_equal(page_heap.dirty.slice_count, 0);
    options.top_pad = 2 * grain() * SLICE_SIZE;
    for (size_t i = 5; i < 8; i++) {
        free_filled(spans[i]);
    }
    free_filled(take_grains(5));
    assert_int_equal(page_heap.dirty.slice_count, 2 * grain());
    options.purge = 0;
    free_filled(take_grains(9));
    assert_int_equal(page_heap.dirty.slice_count, 11 * grain());
    options.trim_threshold = OPTION_AUTO;
    options.top_pad = 0;
    start_clean();
}

/* options.top_pad: idleness leaves that much. */
static void test_top_pad_stays(void **state) {
    (void)state;
    start_clean();
    options.top_pad = 3 * grain() * SLICE_SIZE;
    free_filled(take_grains(10));
    purge_tick();
    purge_tick();
    assert_int_equal(page_heap.dirty.slice_count, 3 * grain());
    options.top_pad = 0;
    purge_tick();
    assert_int_equal(page_heap.dirty.slice_count, 0);
}

int main(void) {
    unit_touch_single_pages();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_purge_all),
        cmocka_unit_test(test_purge_all_but),
        cmocka_unit_test(test_bare_memory_goes_at_once),
        cmocka_unit_test(test_memory_in_use_is_left_alone),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_whole_blocks_first),
        cmocka_unit_test(test_visits_are_short),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_window_after_many_epochs),
        cmocka_unit_test(test_epochs_within_windows),
        cmocka_unit_test(test_purge_all_tells_what_was_there),
        cmocka_unit_test(test_busy_memory_never_goes),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_frees_look_at_the_clock),
        cmocka_unit_test(test_switched_off),
        cmocka_unit_test(test_locked_pages),
        cmocka_unit_test(test_trim_threshold),
        cmocka_unit_test(test_top_pad_stays),
    };
    return cmocka_run_group_tests_name("purge", tests, NULL, NULL);
}
