/* What may happen to a slab while its pages are on their way to the system. The library gives pages
 * back by kernel_call, which this program defines: so a test acts in just that moment. */
#include <sys/mman.h>
#include <unistd.h>

#include "objects/slab_set.h"
#include "os/kernel.h"
#include "os/memory.h"
#include "unit/slab_holder.h"
#include "unit/kernel_words.h"

static struct holder holder;
static struct holder other;
static void (*meanwhile)(void); /* called once, before pages go */
static bool is_refused;         /* whether they may go */

static long give_back(void *address, size_t size, int advice) {
    void (*act)(void) = advice == MADV_DONTNEED ? meanwhile : NULL;
    if (act) {
        meanwhile = NULL;
        act();
    }
    if (is_refused) {
        errno = EINVAL;
        return -1;
    }
    return madvise(address, size, advice);
}

long kernel_call(long number, ...) {
    long words[6];
    TAKE_KERNEL_WORDS(words, number);
    return number == SYS_madvise
               ? give_back((void *)words[0], (size_t)words[1], (int)words[2])
               : syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* The blocks of one slab, in order: all others but the chosen ones are given back. */
static void keep(const uint16_t *places, size_t count) {
    void *list = NULL;
    for (size_t i = holder.count; i-- > 0;) {
        uintptr_t offset = (uintptr_t)holder.blocks[i] - span_of_block(holder.blocks[i])->address;
        size_t place = offset / size_of(holder.object_class);
        bool is_kept = false;
        for (size_t k = 0; k < count; k++) {
            is_kept |= places[k] == place;
        }
        if (!is_kept) {
            drop(&holder, i, &list);
        }
    }
    slab_release(holder.object_class, list);
}

static void hold_slabs(size_t size, unsigned slabs) {
    holder.object_class = size_class_of(size);
    hold_all(&holder, 0, (size_t)slabs * size_classes[holder.object_class].capacity);
}

static void end(void) {
    check_contents(&holder);
    check_contents(&other);
    drop_all(&holder);
    drop_all(&other);
    check_nothing_left();
    assert_null(meanwhile); /* it did happen */
}

/* Takes all blocks awake, and then more. */
static void take_much(void) {
    hold_all(&holder, 0, holder.count + 300);
}

static void test_nobody_wakes_what_goes(void **state) {
    (void)state;
    need_small_pages();
    hold_slabs(64, 1);
    keep((uint16_t[]){0}, 1);
    meanwhile = take_much;
    slab_purge(true);
    end();
}

static void drop_and_reuse(void) {
    drop_all(&holder);
    other.object_class = size_class_of(1024);
    hold_all(&other, 0, 200);
}

static void test_nobody_reuses_what_goes(void **state) {
    (void)state;
    need_small_pages();
    hold_slabs(2048, 1);
    keep((uint16_t[]){5}, 1);
    meanwhile = drop_and_reuse;
    slab_purge(true);
    end();
}

/* The slab that would have been visited next is freed, and so are all others. */
static void test_the_next_slab_goes(void **state) {
    (void)state;
    need_small_pages();
    hold_slabs(2048, 20);
    keep((uint16_t[]){1, 6}, 2);
    meanwhile = drop_and_reuse;
    slab_purge(true);
    end();
}

static void steal(void) {
    other.object_class = holder.object_class;
    hold(&other, 1, 1);
    assert_int_equal(load_relaxed(&span_of_block(other.blocks[0])->shard), 1);
}

static void test_the_slab_moves(void **state) {
    (void)state;
    need_small_pages();
    slab_initialise(2);
    other.object_class = size_class_of(1024);
    hold(&other, 1, 1); /* the shard is there */
    drop_all(&other);
    hold_slabs(64, 2);
    keep((uint16_t[]){0, 64, 192}, 3);
    meanwhile = steal;
    slab_purge(true);
    struct slab_totals now = totals();
    assert_int_equal(now.slab_bytes - now.free_bytes, (holder.count + other.count) * 64);
    assert_int_equal(now.slab_bytes / 64, now.free_blocks + holder.count + other.count);
    end();
    slab_initialise(1);
}

/* The system refuses a page next to one asleep: the block that lies in both sleeps on. */
static void test_refused_beside_asleep(void **state) {
    (void)state;
    need_small_pages();
    hold_slabs(3072, 1);
    const struct span *slab = span_of_block(holder.blocks[0]);
    keep((uint16_t[]){0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 14);
    assert_int_equal(slab_purge(true), 4096);
    assert_int_equal(slab->asleep_pages, 2);
    assert_int_equal(slab->asleep_count, 2);
    keep((uint16_t[]){0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 13);
    is_refused = true;
    assert_int_equal(slab_purge(true), 0);
    is_refused = false;
    assert_int_equal(slab->asleep_pages, 2);
    assert_int_equal(slab->asleep_count, 2);
    assert_int_equal(slab->free_count, 1);
    assert_int_equal(slab_returnable_bytes(), 0);
    end();
}

static void check_purge_lock(void) {
    assert_false(lock_try_acquire_unranked(&slab_purge_lock));
}

/* Fork waits for pages on their way: it takes the lock that is held meanwhile. */
static void test_fork_waits(void **state) {
    (void)state;
    need_small_pages();
    hold_slabs(2048, 1);
    keep((uint16_t[]){5}, 1);
    meanwhile = check_purge_lock;
    slab_purge(true);
    slab_fork_prepare();
    check_purge_lock();
    slab_fork_parent();
    assert_true(lock_try_acquire_unranked(&slab_purge_lock));
    slab_fork_child();
    assert_true(lock_try_acquire_unranked(&slab_purge_lock));
    lock_release_unranked(&slab_purge_lock);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_wakes_what_goes),
        cmocka_unit_test(test_nobody_reuses_what_goes),
        cmocka_unit_test(test_the_next_slab_goes),
        cmocka_unit_test(test_the_slab_moves),
        cmocka_unit_test(test_refused_beside_asleep),
        cmocka_unit_test(test_fork_waits),
    };
    return cmocka_run_group_tests_name("slab_interleave", tests, NULL, NULL);
}
