/* A process forks while one of its threads makes the pool of guarded blocks, and another adds a way
 * through the library's frames. The library reserves the pool by kernel_call, which this program
 * defines: so another thread forks in just that moment. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objects/allocate.h"
#include "objects/reserve.h"
#include "objects/sampler.h"
#include "objects/tag.h"
#include "os/kernel.h"
#include "os/memory.h"
#include "settings/options.h"
#include "unit/kernel_words.h"
#include "unit/unit.h"
#include "watch/guarded.h"
#include "watch/stack.h"

enum { SLOTS = 64 };

static bool is_armed;
static int status_of_child = -1;

static bool gets_guarded_block(void) {
    bool is_placed = false;
    for (unsigned i = 0; i < SLOTS / 2 && !is_placed; i++) {
        is_placed = span_class_of(allocate(100)) == CLASS_PLACED;
    }
    return is_placed;
}

static void *fork_now(void *unused) {
    store_relaxed(&stack_route_writer, true);
    pid_t child = fork();
    if (child == 0) {
        bool may_add = load_relaxed(&stack_route_writer) == 0;
        _exit((gets_guarded_block() ? 0 : 1) + (may_add ? 0 : 2));
    }
    store_relaxed(&stack_route_writer, false);
    CHECK(child > 0 && waitpid(child, &status_of_child, 0) == child, "no child");
    return unused;
}

long kernel_call(long number, ...) {
    long words[6];
    TAKE_KERNEL_WORDS(words, number);
    long pool_size = (2 * SLOTS + 1) * (long)memory_page_size();
    if (is_armed && number == SYS_mmap && MMAP_LENGTH(words) >= pool_size &&
        MMAP_LENGTH(words) < pool_size + 2 * (long)SLICE_SIZE) {
        pthread_t other;
        is_armed = false;
        CHECK(pthread_create(&other, NULL, fork_now, NULL) == 0, "no thread");
        CHECK(pthread_join(other, NULL) == 0, "no thread");
    }
    return syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

static void test_child_of_a_process_that_makes_the_pool(void **state) {
    (void)state;
    options.guarded = true;
    options.guarded_bytes = 1;
    options.guarded_rate = 0;
    options.guarded_slots = SLOTS;
    guarded_start();
    is_armed = true;
    assert_true(gets_guarded_block());
    assert_false(is_armed);
    assert_int_equal(status_of_child, 0);
}

/* The link would stand in what the block's end is known by. */
static void test_no_guarded_block_waits_for_a_handler_to_end(void **state) {
    (void)state;
    void *block = allocate(4);
    for (unsigned i = 0; i < SLOTS && span_class_of(block) != CLASS_PLACED; i++) {
        block = allocate(4);
    }
    assert_int_equal(span_class_of(block), CLASS_PLACED);
    thread_cache_nest();
    release(block);
    assert_null(load_relaxed(&reserve_deferred));
    thread_cache_leave();
}

/* Of a thread whose first call it is: this makes the cache under a lock. */
static void *reallocate_inside(void *block) {
    struct thread_cache_totals before = {0};
    struct thread_cache_totals after = {0};
    thread_cache_totals_add(&before);
    thread_cache_nest();
    store_relaxed(&tag_was_used, true);
    block = reallocate(block, 1100);
    store_relaxed(&tag_was_used, false);
    thread_cache_totals_add(&after);
    thread_cache_leave();
    CHECK(after.cache_count == before.cache_count, "a cache was made");
    return block;
}

static void test_realloc_in_a_handler_makes_no_cache(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, reallocate_inside, allocate(1000)), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_of_a_process_that_makes_the_pool),
        cmocka_unit_test(test_no_guarded_block_waits_for_a_handler_to_end),
        cmocka_unit_test(test_realloc_in_a_handler_makes_no_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
