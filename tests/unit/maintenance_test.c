#include "objects/maintenance.h"

#include <dirent.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "objects/allocate.h"
#include "objects/slab.h"
#include "os/loader.h"
#include "os/machine.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { MIB = 1 << 20, MUCH = 48 * MIB };
enum { LONG = 10000 }; /* ms: who looks whether a thread has come looks before it goes again */

static unsigned threads_named_ours(void) {
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/task");
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[300];
        char name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file) {
            count += fgets(name, sizeof name, file) && strcmp(name, "primalloc\n") == 0;
            fclose(file);
        }
    }
    closedir(directory);
    return count;
}

static void pause_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {}
}

/* Waits for as many threads of ours; false after ten seconds. */
static bool wait_for(unsigned count) {
    for (int i = 0; i < 1000; i++) {
        if (threads_named_ours() == count) {
            return true;
        }
        pause_ms(10);
    }
    return false;
}

static bool can_start(void) {
    return load_acquire(&maintenance_threshold) != SIZE_MAX;
}

/* A look is at some of the slabs; two rounds of them, as the first may be begun already. */
static void look_at_all(void) {
    for (unsigned i = 0; i < 2 * SHARD_MAX * CLASS_COUNT; i++) {
        maintenance_look();
    }
}

static bool wait_until_it_can_start(void) {
    for (int i = 0; i < 1000 && !can_start(); i++) {
        pause_ms(10);
    }
    return can_start();
}

/* Nothing dirty, no thread, and windows of so many milliseconds from now on. */
static void begin(uint64_t delay) {
    if (is_emulated()) {
        skip(); /* there is no thread then */
    }
    maintenance_leave();
    assert_true(wait_until_it_can_start());
    assert_true(wait_for(0));
    options.purge = 1;
    options.maintenance = 1;
    purge_all(0);
    store_relaxed(&maintenance_least, MAINTENANCE_ALONE);
    store_relaxed(&maintenance_threshold, MAINTENANCE_ALONE);
    options.purge_delay = delay;
}

static void *take_touched(size_t size) {
    void *block = allocate(size);
    CHECK(block != NULL, "no memory");
    memset(block, 1, size);
    return block;
}

static void test_comes_and_goes(void **state) {
    (void)state;
    begin(LONG);
    release(take_touched(MUCH));
    assert_false(can_start());
    assert_true(wait_for(1));
    for (int i = 0; i < 3; i++) {
        begin(100); /* on a busy machine it may have come and gone before anybody looks */
        void *block = take_touched(MUCH);
        assert_true(can_start());
        release(block);
        assert_true(wait_until_it_can_start());
        assert_true(wait_for(0));
        assert_true(purge_returnable_bytes() < MIB);
        assert_int_equal(load_relaxed(&maintenance_threshold), MAINTENANCE_MIN);
    }
}

static void take_and_free(unsigned number) {
    (void)number;
    release(take_touched(100));
}

static void test_not_for_little(void **state) {
    (void)state;
    begin(LONG);
    release(take_touched(MAINTENANCE_ALONE - MIB));
    assert_true(can_start());
    release(take_touched(MIB));
    assert_true(can_start());
    unit_run_threads(1, take_and_free);
    purge_all(0);
    release(take_touched(MAINTENANCE_MIN - MIB));
    assert_true(can_start());
    release(take_touched(MAINTENANCE_MIN + MIB));
    assert_false(can_start());
}

/* False if the machine is so busy that it took three times as long, and looks like waiting. */
static bool use_processor_ms(uint64_t ms) {
    uint64_t start = machine_clock_ms();
    uint64_t end = machine_process_time_us() + ms * 1000;
    while (machine_process_time_us() < end) {}
    return machine_clock_ms() - start < 3 * ms;
}

/* A program with one thread that computes is refused, and who asked again a second later finds out
 * whether it does. */
static void test_for_less_where_the_program_waits(void **state) {
    (void)state;
    enum { LITTLE = 16 * MIB, SECOND = 1100 };
    begin(100);
    for (int turn = 0; turn < 3; turn++) { /* the first has nothing to compare with */
        maintenance_ask_again();
        assert_int_equal(load_relaxed(&maintenance_threshold), MAINTENANCE_MIN);
        release(take_touched(LITTLE));
        assert_int_equal(load_relaxed(&maintenance_threshold), MAINTENANCE_ALONE);
        if (!use_processor_ms(SECOND)) {
            skip();
        }
    }
    release(take_touched(LITTLE));
    assert_true(can_start()); /* nobody looks at the clock until then */
    maintenance_ask_again();
    release(take_touched(LITTLE));
    pause_ms(SECOND);
    assert_true(can_start());
    maintenance_ask_again();
    release(take_touched(LITTLE));
    assert_false(can_start());
    assert_int_equal(load_relaxed(&maintenance_least), MAINTENANCE_MIN);
    assert_true(wait_until_it_can_start());
}

/* What nobody touched need not go back. */
static void test_not_for_the_untouched(void **state) {
    (void)state;
    begin(LONG);
    release(allocate(MUCH));
    assert_true(can_start());
    assert_true(load_relaxed(&maintenance_threshold) >= MUCH);
    void *block = allocate(2 * MUCH);
    memset(block, 1, 2 * MUCH);
    release(block);
    assert_false(can_start());
}

/* Looking for it ends with the first span that tells enough. */
static void test_untouched_bytes_are_counted_up_to_enough(void **state) {
    (void)state;
    begin(LONG);
    enum { COUNT = 8, SIZE = 8 * MIB };
    void *blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = allocate(SIZE);
    }
    for (unsigned i = 0; i < COUNT; i += 2) { /* none joins the next */
        release(blocks[i]);
    }
    assert_true(purge_bare_bytes(SIZE_MAX) >= COUNT / 2 * (size_t)SIZE);
    assert_in_range(purge_bare_bytes(0), 1, (COUNT / 2 - 1) * (size_t)SIZE);
    for (unsigned i = 1; i < COUNT; i += 2) {
        release(blocks[i]);
    }
}

static void test_options_keep_it_away(void **state) {
    (void)state;
    begin(LONG);
    options.maintenance = 0;
    release(take_touched(MUCH));
    assert_true(can_start());
    options.maintenance = 1;
    options.purge = 0;
    release(take_touched(MUCH));
    assert_true(can_start());
    options.purge = 1;
    release(take_touched(MUCH));
    assert_false(can_start());
}

/* Where libc's code is known, a call from there starts nothing. */
__attribute__((unused)) static void test_callers(void **state) {
    (void)state;
    begin(LONG);
    assert_true(loader_knows_libraries());
    struct span *span = span_of_block(take_touched(MUCH));
    span_withdraw(span);
    purge_free(span, SPAN_DIRTY); /* past the slow door */
    maintenance_consider((const void *)(uintptr_t)&memcpy, true);
    maintenance_consider((const void *)(uintptr_t)&strtol, false);
    assert_true(can_start());
    maintenance_consider((const void *)(uintptr_t)&test_callers, false);
    assert_false(can_start());
}

static void end_thread_with_much(unsigned number) {
    (void)number;
    thread_cache_refuse(); /* as at its end */
    maintenance_consider((const void *)(uintptr_t)&end_thread_with_much, true);
}

static void test_not_from_a_thread_that_ends(void **state) {
    (void)state;
    begin(100);
    struct span *span = span_of_block(take_touched(MUCH));
    span_withdraw(span);
    purge_free(span, SPAN_DIRTY);
    unit_run_threads(1, end_thread_with_much);
    assert_true(can_start());
}

/* Memory that does not go keeps no thread alive, nor calls for one again. */
__attribute__((unused)) static void test_locked_pages(void **state) {
    (void)state;
    begin(20);
    void *block = take_touched(MUCH);
    if (!unit_lock_pages(block, MUCH)) {
        release(block);
        skip();
    }
    release(block);
    assert_true(wait_until_it_can_start());
    size_t threshold = load_relaxed(&maintenance_threshold);
    assert_true(threshold >= MUCH + MAINTENANCE_MIN && threshold < MUCH + 2 * MAINTENANCE_MIN);
    release(allocate(MIB));
    assert_true(can_start());
    unit_unlock_pages(block, MUCH);
    purge_all(0);
    look_at_all(); /* less is left: the threshold follows */
    assert_true(load_relaxed(&maintenance_threshold) < MAINTENANCE_MIN + MIB);
}

static void test_look_counts_slabs(void **state) {
    (void)state;
    begin(20);
    enum { COUNT = 3000, SIZE = 16 * 1024 };
    static void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = take_touched(SIZE);
    }
    for (size_t i = 0; i < COUNT; i += 2) { /* every second: hardly a slab is emptied */
        release(blocks[i]);
    }
    look_at_all();
    bool was_wanted = load_relaxed(&maintenance_threshold) == 0 || !can_start();
    for (size_t i = 1; i < COUNT; i += 2) {
        release(blocks[i]);
    }
    assert_true(was_wanted || slab_returnable_bytes() < MAINTENANCE_MIN);
    assert_true(wait_until_it_can_start());
}

__attribute__((unused)) static void test_fork(void **state) {
    (void)state;
    begin(2000);
    release(take_touched(MUCH));
    assert_false(can_start());
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        options.purge_delay = 20;
        bool could = can_start() && threads_named_ours() == 0;
        release(take_touched(MUCH));
        _exit(could && !can_start() && wait_until_it_can_start() && wait_for(0) &&
                      purge_returnable_bytes() < MIB
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    maintenance_leave();
    assert_true(wait_until_it_can_start());
    assert_true(purge_returnable_bytes() >=
                MUCH); /* it left at once, and everything where it was */
}

/* Starts and ends under several threads that free much all the time. */
static void storm(unsigned number) {
    for (size_t i = 0; i < scaled(200); i++) {
        void *block = allocate(MUCH / 2);
        CHECK(block != NULL, "no memory");
        memset(block, (int)number, 5000);
        release(block);
        if (i % 10 == number) {
            maintenance_leave();
        }
        if (i % 50 == 0) {
            pause_ms(30);
        }
    }
}

static void test_storm(void **state) {
    (void)state;
    begin(20);
    unit_run_threads(4, storm);
    assert_true(wait_until_it_can_start());
    assert_true(wait_for(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_and_goes),
        cmocka_unit_test(test_not_for_little),
        cmocka_unit_test(test_for_less_where_the_program_waits),
        cmocka_unit_test(test_not_for_the_untouched),
        cmocka_unit_test(test_untouched_bytes_are_counted_up_to_enough),
        cmocka_unit_test(test_options_keep_it_away),
        cmocka_unit_test(test_locked_pages),
#if !defined PRIM_TEST_TSAN && !defined __SANITIZE_ADDRESS__ /* which have their own memcpy */
        cmocka_unit_test(test_callers),
#endif
#ifndef PRIM_TEST_TSAN /* which has no threads after fork */
        cmocka_unit_test(test_fork),
#endif
        cmocka_unit_test(test_not_from_a_thread_that_ends),
        cmocka_unit_test(test_look_counts_slabs),
        cmocka_unit_test(test_storm),
    };
    return cmocka_run_group_tests_name("maintenance", tests, NULL, NULL);
}
