#include "os/lock.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "unit/unit.h"

enum { THREADS = 4 };

static struct lock lock;
static size_t counter; /* deliberately not atomic: the lock alone protects it */
static size_t rounds;
static _Atomic unsigned waiters_done;

static void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void count_under_lock(unsigned number) {
    (void)number;
    for (size_t i = 0; i < rounds; i++) {
        lock_acquire(&lock, LOCK_PAGE_HEAP);
        counter++;
        lock_release(&lock, LOCK_PAGE_HEAP);
    }
}

static void *do_nothing(void *context) {
    return context;
}

extern char __libc_single_threaded __attribute__((weak));

/* The word tells the same whether it was changed by one thread alone or by one of several. */
static void test_alone_or_not(void **state) {
    (void)state;
    alone_learn(&__libc_single_threaded);
    assert_int_equal(process_is_alone(), &__libc_single_threaded != NULL); /* the first test */
    for (int round = 0; round < 2; round++) {
        lock_acquire(&lock, LOCK_PAGE_HEAP);
        assert_int_equal(load_relaxed(&lock.word), 1);
        assert_false(lock_try_acquire_unranked(&lock));
        lock_release(&lock, LOCK_PAGE_HEAP);
        assert_int_equal(load_relaxed(&lock.word), 0);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, do_nothing, NULL), 0);
        assert_false(process_is_alone());
        pthread_join(thread, NULL);
    }
}

static void test_threads_contend(void **state) {
    (void)state;
    rounds = scaled(50000);
    counter = 0;
    unit_run_threads(THREADS, count_under_lock);
    assert_int_equal(counter, THREADS * rounds);
    assert_int_equal(load_relaxed(&lock.word), 0);
}

static void count_by_trying(unsigned number) {
    (void)number;
    for (size_t done = 0; done < rounds;) {
        if (lock_try_acquire_unranked(&lock)) {
            counter++;
            done++;
            lock_release_unranked(&lock);
        }
    }
}

static void test_threads_try(void **state) {
    (void)state;
    rounds = scaled(5000);
    counter = 0;
    unit_run_threads(THREADS, count_by_trying);
    assert_int_equal(counter, THREADS * rounds);
}

static void test_try_fails_while_held(void **state) {
    (void)state;
    assert_true(lock_try_acquire_unranked(&lock));
    assert_false(lock_try_acquire_unranked(&lock));
    lock_release_unranked(&lock);
    lock_acquire(&lock, LOCK_HEAP);
    assert_false(lock_try_acquire_unranked(&lock));
    lock_release(&lock, LOCK_HEAP);
    assert_true(lock_try_acquire_unranked(&lock));
    lock_reset(&lock);
    assert_true(lock_try_acquire_unranked(&lock));
    lock_release_unranked(&lock);
}

/* Thread 0 holds the lock until the others sleep in the kernel for it. */
static void wait_asleep(unsigned number) {
    if (number == 0) {
        lock_acquire_unranked(&lock);
        for (int tries = 0; load_relaxed(&lock.word) != 2; tries++) {
            CHECK(tries < 10000, "nobody ever waited for the lock");
            sleep_ms(1);
        }
        sleep_ms(20);
        CHECK(load_relaxed(&waiters_done) == 0, "a waiter got a lock that is held");
        counter = 1;
        lock_release_unranked(&lock);
        return;
    }
    while (load_relaxed(&lock.word) == 0 && load_relaxed(&waiters_done) == 0) {
        sleep_ms(1); /* thread 0 comes first */
    }
    errno = ERRNO_MARK;
    lock_acquire_unranked(&lock);
    CHECK(errno == ERRNO_MARK, "waiting for a lock changed errno to %d", errno);
    CHECK(counter > 0, "a waiter does not see what the holder wrote");
    counter++;
    add_relaxed(&waiters_done, 1);
    lock_release_unranked(&lock);
    CHECK(errno == ERRNO_MARK, "waking others changed errno to %d", errno);
}

static void test_sleepers_are_woken(void **state) {
    (void)state;
    counter = 0;
    unit_run_threads(THREADS, wait_asleep);
    assert_int_equal(load_relaxed(&waiters_done), THREADS - 1);
    assert_int_equal(counter, THREADS);
    assert_int_equal(load_relaxed(&lock.word), 0);
}

#ifdef PRIM_CHECKED
static void acquire_in_order(void) {
    struct lock inner = {0};
    lock_acquire(&lock, LOCK_HEAP);
    lock_acquire(&inner, LOCK_METADATA);
    lock_release(&inner, LOCK_METADATA);
    lock_release(&lock, LOCK_HEAP);
}

static void acquire_against_order(void) {
    struct lock outer = {0};
    lock_acquire(&lock, LOCK_METADATA);
    lock_acquire(&outer, LOCK_HEAP);
}

static void acquire_one_rank_twice(void) {
    struct lock other = {0};
    lock_acquire(&lock, LOCK_CLASS);
    lock_acquire(&other, LOCK_CLASS);
}

static void release_outer_first(void) {
    struct lock inner = {0};
    lock_acquire(&lock, LOCK_HEAP);
    lock_acquire(&inner, LOCK_METADATA);
    lock_release(&lock, LOCK_HEAP);
}

static void test_ranks_are_asserted(void **state) {
    (void)state;
    assert_int_equal(unit_signal_of(acquire_in_order), 0);
    assert_int_equal(unit_signal_of(acquire_against_order), SIGABRT);
    assert_int_equal(unit_signal_of(acquire_one_rank_twice), SIGABRT);
    assert_int_equal(unit_signal_of(release_outer_first), SIGABRT);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_or_not),       cmocka_unit_test(test_threads_contend),
        cmocka_unit_test(test_threads_try),        cmocka_unit_test(test_try_fails_while_held),
        cmocka_unit_test(test_sleepers_are_woken),
#ifdef PRIM_CHECKED
        cmocka_unit_test(test_ranks_are_asserted),
#endif
    };
    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
