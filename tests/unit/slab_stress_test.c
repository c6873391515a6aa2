/* Threads take, fill, check and exchange blocks of slabs while others put their pages to sleep. */
#include "base/atomics.h"
#include "objects/size_class.h"
#include "objects/slab.h"
#include "os/memory.h"
#include "pages/span.h"
#include "unit/unit.h"

enum { WORKERS = 3, PURGERS = 2 };

static _Atomic(void *) exchange[24];
static _Atomic unsigned workers_left;

static unsigned class_of_slot(size_t slot) {
    static const uint16_t sizes[] = {16, 512, 2048, 3072, 4096, 20480};
    return size_class_of(sizes[slot % ARRAY_LENGTH(sizes)]);
}

static void check_and_release(unsigned object_class, void *list) {
    size_t size = size_classes[object_class].size;
    unsigned count = 0;
    for (void *block = list; block; block = *(void **)block) {
        char *bytes = block;
        CHECK(check_pattern(bytes + 8, size - 8, (uintptr_t)block) == size - 8,
              "a block in use lost its contents");
        ((uint64_t *)block)[1] = 0;
        count++;
    }
    bool is_kept = count % 2 && slab_keep(count / 2 % 2, object_class, list, count) == SLAB_KEPT;
    if (!is_kept) {
        slab_release(object_class, list);
    }
}

static void work(unsigned number) {
    struct random random = {number + 1};
    for (size_t i = 0; i < scaled(3000); i++) {
        size_t slot = random_below(&random, ARRAY_LENGTH(exchange));
        unsigned object_class = class_of_slot(slot);
        size_t size = size_classes[object_class].size;
        void *list = NULL;
        if (random_below(&random, 5) < 3) {
            unsigned wanted = 1 + (unsigned)random_below(&random, 32);
            if (slab_acquire(number % 2, object_class, wanted, &list, NULL) == 1) {
                *(void **)list = NULL;
            }
            for (void *block = list; block; block = *(void **)block) {
                uint64_t pattern = 0;
                fill_pattern(&pattern, sizeof pattern, (uintptr_t)block);
                CHECK(((uint64_t *)block)[1] != pattern, "a block was handed out twice");
                fill_pattern((char *)block + 8, size - 8, (uintptr_t)block);
            }
        }
        check_and_release(object_class, atomic_exchange(&exchange[slot], list));
    }
    atomic_fetch_sub(&workers_left, 1);
}

static void work_or_purge(unsigned number) {
    if (number < WORKERS) {
        work(number);
        return;
    }
    for (unsigned turn = 0; atomic_load(&workers_left); turn++) {
        slab_purge(turn % 2 == number % 2);
        slab_returnable_bytes();
        slab_tick();
        struct slab_totals totals = {0};
        slab_totals_add(&totals);
    }
}

static void run_workers(void) {
    atomic_store(&workers_left, WORKERS);
    unit_run_threads(WORKERS + PURGERS, work_or_purge);
}

static void test_threads(void **state) {
    (void)state;
    slab_initialise(2);
    run_workers();
    for (size_t slot = 0; slot < ARRAY_LENGTH(exchange); slot++) {
        check_and_release(class_of_slot(slot), atomic_exchange(&exchange[slot], NULL));
    }
    slab_trim();
    assert_int_equal(slab_returnable_bytes(), 0);
    struct slab_totals left = {0};
    slab_totals_add(&left);
    assert_int_equal(left.slab_bytes, 0);
    assert_int_equal(left.free_blocks, 0);
    assert_int_equal(left.asleep_bytes, 0);
    assert_int_equal(unit_slices_in_use(), 0);
    slab_initialise(1);
}

/* Two threads that got neighbours within a cache line would take it from each other: where several
 * blocks fit in a line, none that begins a page leaves alone, and of the others not the first that
 * leaves at all, for that is where two threads begin side by side. */
static void test_neighbours_in_a_line_leave_together(void **state) {
    (void)state;
    enum { LISTS = 200, WANTED = 8 };
    static const uint16_t sizes[] = {16, 48, 80, 112};
    static void *lists[LISTS];
    slab_initialise(2);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t begun_pages = 0;
        for (size_t j = 0; j < LISTS; j++) {
            unsigned count = slab_acquire(1, size_class_of(sizes[i]), WANTED, &lists[j], NULL);
            bool begins_page = ((uintptr_t)lists[j] & (memory_page_size() - 1)) < sizes[i];
            bool has_neighbours = sizes[i] < PRIM_CACHE_LINE ? begins_page : j == 0;
            assert_true(has_neighbours ? count == WANTED : count > 0);
            begun_pages += begins_page;
            *(void **)lists[j] = count == 1 ? NULL : *(void **)lists[j];
        }
        assert_true(begun_pages > 0);
        for (size_t j = 0; j < LISTS; j++) {
            slab_release(size_class_of(sizes[i]), lists[j]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbours_in_a_line_leave_together),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("slab_stress", tests, NULL, NULL);
}
