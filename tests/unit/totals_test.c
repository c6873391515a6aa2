#include "watch/totals.h"

#include <unistd.h>

#include "objects/allocate.h"
#include "objects/slab.h"
#include "pages/page_heap.h"
#include "settings/options.h"
#include "unit/unit.h"

static const size_t large_size = (size_t)1 << 20;

static struct totals take_checked(void) {
    struct totals totals = totals_take();
    assert_int_equal(totals.mapped,
                     totals.free_dirty + totals.free_clean + totals.slab + totals.large);
    assert_true(totals.slab_free <= totals.slab);
    assert_int_equal(totals.mapped, page_heap.mapped_slices * SLICE_SIZE);
    return totals;
}

static void test_large_blocks(void **state) {
    (void)state;
    release(allocate(100));
    struct totals before = take_checked();
    void *block = allocate(large_size);
    struct totals with = take_checked();
    assert_int_equal(with.large - before.large, large_size);
    assert_int_equal(with.slab, before.slab);
    release(block);
    struct totals after = take_checked();
    assert_int_equal(after.large, before.large);
    assert_int_equal(after.free_dirty - before.free_dirty, large_size);
}

static void test_slabs(void **state) {
    (void)state;
    enum { COUNT = 2000, SIZE = 1024 };
    static void *blocks[COUNT];
    struct totals before = take_checked();
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = allocate(SIZE);
    }
    struct totals with = take_checked();
    assert_int_equal(with.large, before.large);
    assert_true(with.slab - with.slab_free >= (size_t)COUNT * SIZE);
    for (int i = 0; i < COUNT; i++) {
        release(blocks[i]);
    }
    thread_cache_flush(thread_cache_own());
    struct totals after = take_checked();
    assert_true(after.slab < with.slab);
    assert_int_equal(after.slab - after.slab_free, 0);
}

/* Pages of slabs in use that were given back are free bytes of slabs, and told apart. */
static void test_sleeping_pages(void **state) {
    (void)state;
    enum { COUNT = 400, SIZE = 2048 };
    static void *blocks[COUNT];
    slab_trim();
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = allocate(SIZE);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 20) {
            release(blocks[i]);
        }
    }
    thread_cache_flush(thread_cache_own());
    struct totals before = take_checked();
    size_t returned = slab_purge(true);
    struct totals with = take_checked();
    assert_true(returned > 0);
    assert_int_equal(with.slab_asleep - before.slab_asleep, returned);
    assert_true(with.slab_asleep <= with.slab_free);
    assert_int_equal(with.slab_free, before.slab_free);
    assert_int_equal(with.slab, before.slab);
    for (int i = 0; i < COUNT; i += 20) {
        release(blocks[i]);
    }
    thread_cache_flush(thread_cache_own());
    assert_int_equal(take_checked().slab_asleep, before.slab_asleep);
}

static void test_the_rest(void **state) {
    (void)state;
    static int variable;
    struct totals before = take_checked();
    assert_int_equal(before.threads, 1);
    assert_true(before.metadata > 0);
    release(&variable);
    assert_int_equal(take_checked().foreign, before.foreign + 1);
}

static void count_calls(void) {
    options.stats = 1;
    thread_cache_apply_options();
    for (size_t size = 1; size < large_size; size *= 2) {
        release(reallocate(allocate(size), size));
    }
    options.stats = 0;
    thread_cache_apply_options();
}

static void count_in_thread(unsigned number) {
    (void)number;
    void *block = allocate(10);
    (void)block;
    release(block);
}

static void test_calls(void **state) {
    (void)state;
    struct totals before = take_checked();
    count_calls();
    struct totals after = take_checked();
    assert_int_equal(after.allocations - before.allocations, 20);
    assert_int_equal(after.frees - before.frees, 20);
    assert_int_equal(after.reallocations - before.reallocations, 20);
    release(allocate(10)); /* without the option nobody counts */
    assert_int_equal(take_checked().allocations, after.allocations);
    options.stats = 1;
    unit_run_threads(3, count_in_thread); /* threads that have exited are counted, too */
    options.stats = 0;
    assert_int_equal(take_checked().allocations - after.allocations, 3);
    assert_int_equal(take_checked().frees - after.frees, 3);
}

static void test_line(void **state) {
    (void)state;
    char text[256];
    char expected[256];
    struct totals totals = take_checked();
    struct print out = print_to(text, sizeof text - 1);
    totals_print_calls(&out);
    text[out.length] = '\0';
    int length = snprintf(expected, sizeof expected,
                          "primalloc pid=%d program=%s allocations=%llu frees=%llu "
                          "reallocations=%llu",
                          (int)getpid(), program_invocation_short_name,
                          (unsigned long long)totals.allocations, (unsigned long long)totals.frees,
                          (unsigned long long)totals.reallocations);
    assert_memory_equal(text, expected, (size_t)length);
    assert_true(text[length] == ' ' || text[length] == '\n');
    assert_ptr_equal(strchr(text, '\n'), text + out.length - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_blocks),   cmocka_unit_test(test_slabs),
        cmocka_unit_test(test_sleeping_pages), cmocka_unit_test(test_the_rest),
        cmocka_unit_test(test_calls),          cmocka_unit_test(test_line),
    };
    return cmocka_run_group_tests_name("totals", tests, NULL, NULL);
}
