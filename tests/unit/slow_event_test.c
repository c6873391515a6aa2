#include "objects/slab.h"
#include "pages/limits.h"
#include "pages/purge.h"
#include "unit/thread_cache_check.h"
#include "unit/unit.h"

/* What slow calls have to do besides their own work. */
static void make_all_due(void) {
    store_relaxed(&limits.is_look_due, true);
    store_relaxed(&slab_tick_is_due, true);
    store_relaxed(&purge_is_due, true);
}

static unsigned due_count(void) {
    return load_relaxed(&limits.is_look_due) + load_relaxed(&slab_tick_is_due) +
           load_relaxed(&purge_is_due);
}

/* No call is long: it does one piece of what is due, or collects, or gives blocks away. */
static void test_one_piece_of_work_a_call(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    const struct bin *bin = bin_of(cache, size_class_of(64));
    unsigned given = 0;
    unsigned done = 0;
    make_all_due();
    for (unsigned round = 0; round < 500; round++) {
        allocate_many(BLOCKS, 64);
        for (size_t i = 0; i < BLOCKS; i++) {
            uint32_t events = cache->slow_events;
            unsigned due = due_count();
            const void *spare = bin->spare;
            release(blocks[i]);
            bool has_collected = cache->slow_events != events && cache->slow_events % 64 == 0;
            bool has_given = spare && bin->spare != spare && !has_collected;
            unsigned less = due - (unsigned)bits_min(due, due_count());
            CHECK(less + has_given + has_collected <= 1, "%u pieces, %d given, %d collected", less,
                  has_given, has_collected);
            given += has_given;
            done += less;
        }
        if (due_count() == 0) {
            make_all_due();
        }
        check_cache(cache);
    }
    CHECK(given > 20 && done > 20, "%u given, %u pieces done", given, done);
    thread_cache_flush(cache);
}

/* Where there is no address map each free takes the slow door, and most find room in their bin. */
static void test_a_bin_with_room_is_no_event(void **state) {
    (void)state;
    struct thread_cache *cache = fresh_cache();
    for (unsigned round = 0; round < 500; round++) {
        void *block = allocate(64);
        uint32_t events = cache->slow_events;
        make_all_due();
        CHECK(cache->room[size_class_of(64)] > 0, "no room");
        release_slow(block);
        assert_int_equal(cache->slow_events, events);
        assert_int_equal(due_count(), 3);
        assert_ptr_equal(cache->head[size_class_of(64)], block);
    }
    check_cache(cache);
    thread_cache_flush(cache);
}

/* In a thread beside another, which may hold the more the more events it has seen. */
static void pass_four_billion(unsigned number) {
    (void)number;
    struct thread_cache *cache = thread_cache_own();
    cache->slow_events = UINT32_MAX;
    size_t most = thread_cache_budget(cache);
    thread_cache_note_event(cache);
    CHECK(cache->slow_events == (uint64_t)UINT32_MAX + 1, "%lu events", cache->slow_events);
    CHECK(thread_cache_budget(cache) == most, "%zu bytes", thread_cache_budget(cache));
}

static void test_events_do_not_begin_anew(void **state) {
    (void)state;
    fresh_cache();
    unit_run_threads(1, pass_four_billion);
}

int main(void) {
    options.maintenance = 0; /* its thread would do some of the work */
    defaults = options;
    slab_initialise(1); /* one thread alone keeps no lists */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_piece_of_work_a_call),
        cmocka_unit_test(test_a_bin_with_room_is_no_event),
        cmocka_unit_test(test_events_do_not_begin_anew),
    };
    return cmocka_run_group_tests_name("slow event", tests, NULL, NULL);
}
