/* What the minimal library answers to whoever asks for observers: what the page heap knows, and
 * that the rest is not there. */
#include "support/support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "primalloc.h"

static void test_figures_of_the_page_heap(void **state) {
    (void)state;
    struct prim_stats before;
    struct prim_stats with;
    assert_int_equal(prim_stats_get(&before, sizeof before), sizeof before);
    size_t size = (size_t)64 << 20;
    char *block = opaque(malloc(size));
    assert_non_null(block);
    prim_stats_get(&with, sizeof with);
    uint64_t used_before = before.mapped_bytes - before.dirty_bytes - before.clean_bytes;
    uint64_t used_with = with.mapped_bytes - with.dirty_bytes - with.clean_bytes;
    assert_in_range(used_with - used_before, size, size + (1 << 20));
    assert_true(with.held_peak_bytes >= size);
    assert_int_equal(with.live_bytes, 0);
    free(block);
    struct prim_class_stats row;
    assert_int_equal(prim_stats_classes(&row, 1, sizeof row), 0);
}

static void test_heaps_are_counted_exactly(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    void *block = prim_heap_malloc(heap, 1000);
    assert_non_null(block);
    prim_free(prim_heap_malloc(heap, 10));
    struct prim_heap_stats stats;
    prim_heap_stats_get(heap, &stats, sizeof stats);
    assert_int_equal(stats.total_blocks, 2);
    assert_int_equal(stats.live_blocks, 1);
    assert_int_equal(stats.freed_blocks, 1);
    assert_in_range(stats.live_bytes, 1000, 1200);
    prim_heap_destroy(heap);
}

#define ASSERT_IS_NOT_THERE(call) \
    errno = 0;                    \
    assert_int_equal((call), -1); \
    assert_int_equal(errno, ENOTSUP)

static void put(const char *text, size_t length, void *context) {
    (void)text;
    (void)length;
    (void)context;
}

static void test_observers_are_not_there(void **state) {
    (void)state;
    ASSERT_IS_NOT_THERE(prim_profile_start("heap.pb.gz"));
    ASSERT_IS_NOT_THERE(prim_profile_dump(NULL));
    ASSERT_IS_NOT_THERE((int)prim_leak_check());
    ASSERT_IS_NOT_THERE(prim_stats_write(PRIM_STATS_JSON, put, NULL));
    assert_int_equal(prim_check_all(), 0);
    prim_profile_stop();
    prim_leak_disable();
    prim_leak_enable();
    prim_leak_ignore(NULL);
}

static char printed[1000];

static void keep(const char *text, size_t length, void *context) {
    (void)context;
    strncat(printed, text, length);
}

static void test_statistics_are_one_line(void **state) {
    (void)state;
    prim_output_set(keep, NULL);
    prim_stats_print();
    prim_output_set(NULL, NULL);
    assert_ptr_equal(strstr(printed, "primalloc: heap of "), printed);
    assert_ptr_equal(strchr(printed, '\n') + 1, printed + strlen(printed));
}

int main(void) {
    expect_allocator();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures_of_the_page_heap),
        cmocka_unit_test(test_heaps_are_counted_exactly),
        cmocka_unit_test(test_observers_are_not_there),
        cmocka_unit_test(test_statistics_are_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
