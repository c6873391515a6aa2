#include "pages/purge.h"

#include <sys/mman.h>
#include <time.h>

#include "os/machine.h"
#include "os/memory.h"
#include "pages/page_heap.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { SLICES = 256 };

static const size_t never_ms = 3600000;

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
    struct span *span = page_heap_allocate(slice_count, (size_t)1 << 16);
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
    struct span *whole = page_heap_allocate(SLICES, (size_t)1 << 16);
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

/* Purged is what was idle for a whole epoch: the least that was dirty in it. */
static void test_epochs(void **state) {
    (void)state;
    start_clean();
    make_dirty(SLICES);
    purge_tick(); /* its epoch began without dirty slices */
    assert_int_equal(page_heap.dirty.slice_count, SLICES);
    struct span *span = page_heap_allocate(SLICES / 4, 0);
    page_heap_free(span, SPAN_DIRTY);
    purge_tick(); /* a quarter was needed, three were idle */
    assert_int_equal(page_heap.dirty.slice_count, SLICES / 4);
    purge_tick(); /* now the last quarter was idle as well */
    assert_int_equal(page_heap.dirty.slice_count, 0);
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
    struct timespec youth = {0, 80000000};
    nanosleep(&youth, NULL); /* in a young process epochs are shorter than the option says */
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

/* Where the kernel refuses, as it does for locked pages, nothing is said to be purged. */
static void test_locked_pages(void **state) {
    (void)state;
    start_clean();
    size_t size = (size_t)SLICES * SLICE_SIZE;
    void *bytes = make_dirty(SLICES);
    if (unit_is_emulated() || mlock(bytes, size) != 0) {
        skip(); /* this process may not lock so much */
    }
    assert_int_equal(purge_all(0), 0);
    assert_int_equal(page_heap.dirty.slice_count, SLICES);
    assert_int_equal(unit_resident(bytes, size), size);
    assert_int_equal(munlock(bytes, size), 0);
    assert_int_equal(purge_all(0), size);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_purge_all),
        cmocka_unit_test(test_purge_all_but),
        cmocka_unit_test(test_memory_in_use_is_left_alone),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_busy_memory_never_goes),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_frees_look_at_the_clock),
        cmocka_unit_test(test_switched_off),
        cmocka_unit_test(test_locked_pages),
    };
    return cmocka_run_group_tests_name("purge", tests, NULL, NULL);
}
