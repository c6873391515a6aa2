#include "pages/returned.h"

#include <unistd.h>

#include "base/bits.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "unit/unit.h"

enum { SLICES = 512 }; /* 8 MiB */

static uint64_t needed(void) {
    return load_relaxed(&returned_needed_bytes);
}

static struct span *take(void) {
    struct span *span = page_heap_allocate(SLICES, 0);
    assert_non_null(span);
    return span;
}

static struct span *take_touched(void) {
    struct span *span = take();
    memset((void *)span->address, 1, span_size(span));
    return span;
}

static void wait_ms(uint64_t length) {
    for (uint64_t start = machine_clock_ms(); machine_clock_ms() - start < length;) {
        usleep(1000);
    }
}

static void test_nothing_went_back(void **state) {
    (void)state;
    page_heap_free(take(), SPAN_DIRTY);
    page_heap_free(take(), SPAN_DIRTY);
    assert_int_equal(needed(), 0);
}

/* The program never touched it, so nothing was paid for its return, nor will be. */
static void test_nothing_was_resident(void **state) {
    (void)state;
    page_heap_free(take(), SPAN_DIRTY);
    purge_all(0);
    page_heap_free(take(), SPAN_DIRTY);
    assert_int_equal(needed(), 0);
}

/* Half of what went back comes into use at once: that half counts, once. */
static void test_needed_at_once(void **state) {
    (void)state;
    page_heap_free(take_touched(), SPAN_DIRTY);
    purge_all(0);
    uint64_t before = needed();
    struct span *half = page_heap_allocate(SLICES / 2, 0);
    assert_non_null(half);
    assert_int_equal(needed() - before, span_size(half));
    page_heap_free(half, SPAN_DIRTY);
}

/* Little of 2 MiB goes back, all of them come into use: what went back counts, and once. */
static void test_needed_among_others(void **state) {
    (void)state;
    struct span *span = take_touched();
    uint64_t before = needed();
    size_t little = bits_max(2 * SLICE_SIZE, memory_page_size());
    returned_note(span->address, span->address + little);
    returned_need(span->address, span_end(span));
    assert_int_equal(needed() - before, little);
    returned_need(span->address, span_end(span));
    assert_int_equal(needed() - before, little);
    page_heap_free(span, SPAN_DIRTY);
}

static void test_needed_later(void **state) {
    (void)state;
    page_heap_free(take_touched(), SPAN_DIRTY);
    purge_all(0);
    wait_ms(1100);
    uint64_t before = needed();
    page_heap_free(take(), SPAN_DIRTY);
    assert_int_equal(needed(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_went_back), cmocka_unit_test(test_nothing_was_resident),
        cmocka_unit_test(test_needed_at_once),    cmocka_unit_test(test_needed_among_others),
        cmocka_unit_test(test_needed_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
