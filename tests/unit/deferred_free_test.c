#include "objects/deferred_free.h"

#include <errno.h>

#include "objects/allocate.h"
#include "objects/thread_cache.h"
#include "unit/unit.h"

static struct {
    unsigned calls;
    bool is_forced;
    void *context;
    void *waiting; /* a block that the function frees */
} seen;

static bool free_waiting(bool is_forced, uint64_t beat, void *context) {
    (void)beat;
    seen.calls++;
    seen.is_forced = is_forced;
    seen.context = context;
    assert_false(thread_cache_is_inside());
    assert_false(deferred_free_beat(true)); /* it is inside: no second call */
    bool has_any = seen.waiting != NULL;
    release(seen.waiting);
    seen.waiting = NULL;
    errno = EIO;
    return has_any;
}

static void test_called_with_what_was_set(void **state) {
    (void)state;
    int there;
    seen.waiting = allocate(50);
    deferred_free_set(free_waiting, &there);
    errno = 4711;
    assert_true(deferred_free_beat(true));
    assert_int_equal(errno, 4711);
    assert_true(seen.is_forced);
    assert_ptr_equal(seen.context, &there);
    assert_false(deferred_free_beat(false)); /* nothing is left to free */
    assert_false(seen.is_forced);
    assert_int_equal(seen.calls, 2);
}

static void test_called_by_slow_allocations(void **state) {
    (void)state;
    deferred_free_set(free_waiting, NULL);
    unsigned before = seen.calls;
    void *large = allocate(1 << 20);
    assert_int_equal(seen.calls, before + 1);
    assert_false(thread_cache_is_inside());
    deferred_free_set(NULL, NULL);
    release(large);
    release(allocate(1 << 20));
    assert_int_equal(seen.calls, before + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_called_with_what_was_set),
        cmocka_unit_test(test_called_by_slow_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
