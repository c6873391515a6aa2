#include "objects/reserve.h"

#include <errno.h>

#include "objects/allocate.h"
#include "objects/heap.h"
#include "objects/large.h"
#include "objects/thread_cache.h"
#include "unit/unit.h"

/* A signal handler that interrupted the slow door: the thread is inside. */
static void interrupt(void) {
    heap_ensure();
    assert_true(thread_cache_enter());
    assert_true(thread_cache_is_inside());
}

static void test_blocks_lie_apart(void **state) {
    (void)state;
    interrupt();
    unsigned char *first = allocate(100);
    unsigned char *second = allocate_zeroed(300000, 0);
    unsigned char *third = allocate_aligned(50, 4096);
    assert_true(reserve_size(first) >= 100 && reserve_size(second) >= 300000);
    assert_int_equal((uintptr_t)third % 4096, 0);
    assert_true(first + usable_size(first) <= second && second + usable_size(second) <= third);
    memset(first, 1, 100);
    assert_int_equal(second[0] | second[299999], 0);
    unsigned char *moved = reallocate(first, 200);
    assert_true(moved != first && moved[0] == 1 && moved[99] == 1);
    release(moved);
    release(second);
    release(third);
    unsigned char *again = allocate(10);
    assert_ptr_equal(again, first); /* nothing was left: it begins anew */
    release(again);
    thread_cache_leave();
    assert_false(thread_cache_is_inside());
}

static void test_bounded(void **state) {
    (void)state;
    interrupt();
    void *block = reserve_allocate(900000, 0);
    assert_non_null(block);
    errno = 0;
    assert_null(reserve_allocate(900000, 0));
    assert_int_equal(errno, ENOMEM);
    assert_null(reserve_allocate(SIZE_MAX, 0));
    assert_true(reserve_release(block));
    for (int i = 0; i < 1000; i++) { /* the last one's place is free at once */
        void *kept = reserve_allocate(10, 0);
        void *last = reserve_allocate(100000, 0);
        assert_non_null(last);
        reserve_release(last);
        reserve_release(kept);
    }
    thread_cache_leave();
}

static void test_outlive_the_handler(void **state) {
    (void)state;
    interrupt();
    unsigned char *block = allocate(30);
    memset(block, 7, 30);
    thread_cache_leave();
    block = reallocate(block, 100); /* moves to the heap */
    assert_int_equal(reserve_size(block), 0);
    assert_int_equal(block[29], 7);
    release(block);
}

static void test_frees_wait(void **state) {
    (void)state;
    size_t before = large_count();
    void *block = allocate(300000);
    assert_int_equal(reserve_size(block), 0);
    interrupt();
    thread_cache_nest();
    release(block);
    thread_cache_leave();
    assert_ptr_equal(load_relaxed(&reserve_deferred), block); /* it is inside still */
    assert_int_equal(large_count(), before + 1);
    thread_cache_leave();
    assert_null(load_relaxed(&reserve_deferred));
    assert_int_equal(large_count(), before);
}

static void allocate_and_release(unsigned number) {
    for (int i = 0; i < 20000; i++) {
        unsigned char *block = reserve_allocate(64, 0);
        CHECK(block != NULL, "no room for two blocks");
        memset(block, (int)number, 64);
        CHECK(block[63] == number, "somebody else wrote to a block of ours");
        reserve_release(block);
    }
}

/* What one thread gives back another writes to next: ThreadSanitizer knows that it may. */
static void test_handed_on(void **state) {
    (void)state;
    unit_run_threads(2, allocate_and_release);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handed_on),  cmocka_unit_test(test_blocks_lie_apart),
        cmocka_unit_test(test_bounded),    cmocka_unit_test(test_outlive_the_handler),
        cmocka_unit_test(test_frees_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
