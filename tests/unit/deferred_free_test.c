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

static bool beat(bool is_forced) {
    thread_cache_enter();
    bool has_freed = deferred_free_beat(is_forced);
    thread_cache_leave();
    return has_freed;
}

static void test_called_with_what_was_set(void **state) {
    (void)state;
    int there;
    seen.waiting = allocate(50);
    deferred_free_set(free_waiting, &there);
    errno = 4711;
    assert_true(beat(true));
    assert_int_equal(errno, 4711);
    assert_true(seen.is_forced);
    assert_ptr_equal(seen.context, &there);
    assert_false(beat(false)); /* nothing is left to free */
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

/* Threads that set a function each at any moment: each is to be called with its own context. */
enum { ROUNDS = 5000000, SETTERS = 2 };

static char contexts[SETTERS];

static bool expect_first(bool is_forced, uint64_t number, void *context) {
    (void)number;
    CHECK(context == &contexts[0], "the other's context");
    return is_forced;
}

static bool expect_second(bool is_forced, uint64_t number, void *context) {
    (void)number;
    CHECK(context == &contexts[1], "the other's context");
    return is_forced;
}

static void set_and_call(unsigned number) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        deferred_free_set(number ? expect_second : expect_first, &contexts[number]);
        CHECK(beat(true), "not called");
    }
}

static void test_set_by_several_threads(void **state) {
    (void)state;
    unit_run_threads(SETTERS, set_and_call);
    deferred_free_set(NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_called_with_what_was_set),
        cmocka_unit_test(test_called_by_slow_allocations),
        cmocka_unit_test(test_set_by_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
