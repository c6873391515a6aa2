#include "objects/heap.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objects/allocate.h"
#include "objects/slab.h"
#include "pages/metadata.h"
#include "pages/page_heap.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { THREADS = 4, FORKS = 20 };

static void test_set_up_once(void **state) {
    (void)state;
    assert_true(load_acquire(&heap_is_ready)); /* the constructor saw to it */
    assert_true(heap_read_options());
    _Atomic uint8_t *map = address_map_bytes;
    uintptr_t mask = address_map_mask;
    assert_true(mask != 0);
    heap_ensure();
    heap_initialise();
    heap_initialise();
    assert_ptr_equal(address_map_bytes, map);
    assert_int_equal(address_map_mask, mask);
}

static void use_heap(unsigned number) {
    struct random random = {number + 1};
    void *blocks[50] = {NULL};
    for (size_t i = 0; i < scaled(3000); i++) {
        size_t index = random_below(&random, ARRAY_LENGTH(blocks));
        release(blocks[index]);
        size_t size = random_size(&random, 2000000);
        blocks[index] = allocate(size);
        CHECK(blocks[index] != NULL, "no memory");
        memset(blocks[index], (int)number, size < 64 ? size : 64);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        release(blocks[i]);
    }
}

/* The three calls as fork makes them among threads: all locks held, all free again. */
static void test_locks_around_fork(void **state) {
    (void)state;
    release(allocate(100));
    heap_fork_prepare(true);
    assert_false(lock_try_acquire_unranked(&page_heap.lock));
    heap_fork_parent(true);
    assert_true(lock_try_acquire_unranked(&page_heap.lock));
    lock_release_unranked(&page_heap.lock);
    use_heap(0);
    heap_fork_prepare(true);
    heap_fork_child(true);
    assert_true(lock_try_acquire_unranked(&page_heap.lock));
    lock_release_unranked(&page_heap.lock);
    use_heap(1);
    assert_non_null(metadata_allocate(64, 64));
}

/* One thread alone takes none, so that fork copies fewer pages. */
static void test_fork_alone(void **state) {
    (void)state;
    heap_fork_prepare(false);
    assert_true(lock_try_acquire_unranked(&page_heap.lock));
    lock_release_unranked(&page_heap.lock);
    heap_fork_parent(false);
    use_heap(2);
    heap_fork_prepare(false);
    heap_fork_child(false);
    use_heap(3);
}

#if !defined PRIM_TEST_TSAN /* which cannot follow a fork from several threads */
static _Atomic bool is_over;

/* Thread 0 forks while the others are at work; every child finds a heap that works. */
static void fork_or_work(unsigned number) {
    if (number > 0) {
        while (!load_relaxed(&is_over)) {
            use_heap(number);
        }
        return;
    }
    char *kept = allocate(300000);
    fill_pattern(kept, 300000, 3);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            CHECK(check_pattern(kept, 300000, 3) == 300000, "a block changed in the child");
            use_heap(9);
            release(kept);
            _exit(0);
        }
        int status = 1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child, "no child");
        CHECK(status == 0, "the child's status is %#x", status);
    }
    store_relaxed(&is_over, true);
    CHECK(check_pattern(kept, 300000, 3) == 300000, "a block changed in the parent");
    release(kept);
}

static void test_fork_under_load(void **state) {
    (void)state;
    unit_run_threads(THREADS, fork_or_work);
}
#endif

static void test_threads(void **state) {
    (void)state;
    unit_run_threads(THREADS, use_heap);
}

/* On the last processor, with another thread's cache beside this one's: the bound on shards holds
 * whenever it is set. */
static void bound_shards(unsigned number) {
    cpu_set_t allowed;
    release(allocate(100));
    if (number > 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return;
    }
    unsigned processor = CPU_SETSIZE - 1;
    while (!CPU_ISSET(processor, &allowed)) {
        processor--;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "cannot move");
    struct options before = options;
    for (unsigned most = 1; most <= 4; most++) {
        options.shards = most;
        heap_apply_options();
        CHECK(slab_current_shard() == processor % most, "shard %u of %u", slab_current_shard(),
              most);
    }
    options = before;
    heap_apply_options();
}

static void test_bound_on_shards(void **state) {
    (void)state;
    release(allocate(100)); /* the main thread has a cache, so the next one is the second */
    unit_run_threads(1, bound_shards);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_up_once),
        cmocka_unit_test(test_locks_around_fork),
        cmocka_unit_test(test_fork_alone),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_bound_on_shards),
#if !defined PRIM_TEST_TSAN
        cmocka_unit_test(test_fork_under_load),
#endif
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
