#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "objects/size_class.h"
#include "objects/slab.h"
#include "objects/slab_set.h"
#include "os/memory.h"
#include "pages/purge.h"
#include "settings/options.h"
#include "unit/slab_holder.h"

/* ThreadSanitizer: fork among threads is not for it. */
static bool is_tsan(void) {
#ifdef PRIM_TEST_TSAN
    return true;
#else
    return false;
#endif
}

static int by_address(const void *a, const void *b) {
    uintptr_t left = *(const uintptr_t *)a;
    uintptr_t right = *(const uintptr_t *)b;
    return (left > right) - (left < right);
}

/* Bytes of the system pages that these blocks lie in; sorts them. */
static size_t live_bytes(void **blocks, size_t count) {
    size_t page = memory_page_size();
    size_t pages = 0;
    uintptr_t next = 0; /* the first page not counted yet */
    qsort(blocks, count, sizeof blocks[0], by_address);
    for (size_t i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)blocks[i];
        uintptr_t first = bits_max(address / page, next);
        uintptr_t end = (address + size_of(span_class_of(blocks[i])) - 1) / page + 1;
        pages += end > first ? end - first : 0;
        next = bits_max(end, next);
    }
    return pages * page;
}

/* Resident are the pages in which held blocks lie, and of the slab being carved perhaps the page
 * that carving has come to, with what a block there overlaps. */
static void check_resident(struct holder *holder) {
    size_t live = live_bytes(holder->blocks, holder->count);
    size_t resident = 0;
    const struct span *last = NULL;
    size_t allowed = 0;
    for (size_t i = 0; i < holder->count; i++) {
        const struct span *slab = span_of_block(holder->blocks[i]);
        if (slab != last) {
            resident += unit_resident((void *)slab->address, span_size(slab));
            bool is_carved = slab->carved_count == size_classes[holder->object_class].capacity;
            allowed += is_carved ? 0 : size_of(holder->object_class) + memory_page_size();
        }
        last = slab;
    }
    if (memory_page_size() <= SLICE_SIZE) { /* else pages are shared with other spans */
        CHECK(resident >= live && resident <= live + bits_round_up(allowed, memory_page_size()),
              "class %u: %zu bytes resident, %zu live, %zu allowed", holder->object_class, resident,
              live, allowed);
    }
}

static bool has_slabs(unsigned object_class) {
    return size_classes[object_class].capacity > 1 && object_class != CLASS_OF_8;
}

static struct holder holder;

static void hold_slabs(unsigned object_class, unsigned slabs) {
    holder.object_class = object_class;
    hold_all(&holder, 0, (size_t)slabs * size_classes[object_class].capacity);
}

/* Of every class: whatever is left of some slabs, only its pages stay resident, the counts are
 * true, and what sleeps is handed out again before there is a new slab. */
static void test_every_class(void **state) {
    (void)state;
    struct random random = unit_random();
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        if (!has_slabs(object_class)) {
            continue;
        }
        hold_slabs(object_class, 6);
        drop_most(&holder, &random, 1 + (unsigned)random_below(&random, 100));
        struct slab_totals before = totals();
        size_t blocks = before.free_blocks + holder.count;
        size_t bytes = slab_purge(true);
        struct slab_totals after = totals();
        assert_int_equal(after.asleep_bytes, bytes);
        assert_int_equal(after.free_bytes, before.free_bytes);
        assert_true(after.free_blocks >= before.free_blocks);
        assert_int_equal(slab_returnable_bytes(), 0);
        check_resident(&holder);
        check_contents(&holder);
        assert_int_equal(slab_purge(true), 0);
        hold_all(&holder, 0, blocks);
        assert_true(totals().slab_bytes <= bits_max(after.slab_bytes, before.slab_bytes));
        assert_int_equal(totals().asleep_bytes, 0);
        check_contents(&holder);
        drop_all(&holder);
        check_nothing_left();
    }
}

/* Waking is thrifty: whoever wants one block gets what one page holds, or the pages of a block. */
static void test_waking_stops_at_page_end(void **state) {
    (void)state;
    static void *rest;
    size_t page = memory_page_size();
    holder.object_class = size_class_of(64);
    hold_slabs(holder.object_class, 1);
    qsort(holder.blocks, holder.count, sizeof(void *), by_address);
    rest = NULL;
    for (size_t i = holder.count; i-- > 1;) { /* the first block stays */
        drop(&holder, i, &rest);
    }
    slab_release(holder.object_class, rest);
    size_t asleep = slab_purge(true);
    assert_int_equal(asleep, SLICE_SIZE > page ? SLICE_SIZE - page : 0);
    hold(&holder, 0, 1); /* awake blocks first */
    assert_int_equal(totals().asleep_bytes, asleep);
    if (asleep) {
        unsigned count = hold(&holder, 0, 1);
        assert_int_equal(totals().asleep_bytes, asleep - page);
        assert_int_equal(count, page / 64);
        check_resident(&holder);
    }
    drop_all(&holder);
    check_nothing_left();
}

/* Only what nobody touched between two visits goes, of all slabs or of those that lay idle. */
static void test_idle_only(void **state) {
    (void)state;
    need_small_pages();
    unsigned object_class = size_class_of(2048);
    struct random random = unit_random();
    hold_slabs(object_class, 400);
    drop_most(&holder, &random, 10);
    size_t returnable = slab_returnable_bytes();
    assert_int_equal(returnable, totals().free_blocks * 2048);
    assert_int_equal(slab_purge(false), 0);
    hold(&holder, 0, 1); /* touches one slab */
    size_t first = slab_purge(false);
    assert_true(first > 0 && first < returnable);
    assert_true(slab_returnable_bytes() <= 8 * 2048); /* of the slab touched */
    size_t second = slab_purge(false);
    assert_true(second <= 4 * memory_page_size());
    assert_int_equal(slab_purge(false), 0);
    assert_int_equal(slab_returnable_bytes(), 0);
    check_resident(&holder);
    size_t kept = holder.count;
    drop_most(&holder, &random, 2);
    assert_true(holder.count < kept);
    assert_true(slab_returnable_bytes() > 0);
    assert_int_equal(slab_purge(false), 0);
    slab_purge(false);
    assert_int_equal(slab_returnable_bytes(), 0);
    check_resident(&holder);
    drop_all(&holder);
    check_nothing_left();
}

/* A new slab may be made of dirty pages: the room that is not carved yet counts as free then. */
static void test_dirty_room(void **state) {
    (void)state;
    need_small_pages();
    purge_all(0);
    hold_slabs(size_class_of(64), 64);
    drop_all(&holder);
    slab_trim();
    for (unsigned way = 0; way < 2; way++) {
        holder.object_class = size_class_of(1024);
        hold(&holder, 0, 1);
        const struct span *slab = span_of_block(holder.blocks[0]);
        assert_false(slab->is_zero);
        assert_true(unit_resident((void *)slab->address, span_size(slab)) == SLICE_SIZE);
        if (way == 0) {
            assert_true(slab_purge(true) > 0);
        } else {
            assert_int_equal(slab_purge(false), 0);
            assert_int_equal(slab_purge(false), 0); /* now it is free, but not idle yet */
            assert_true(slab_purge(false) > 0);
        }
        check_resident(&holder);
        check_contents(&holder);
        assert_int_equal(slab->carved_count, size_classes[holder.object_class].capacity);
        drop_all(&holder);
        check_nothing_left();
        hold_slabs(size_class_of(64), 64);
        drop_all(&holder);
    }
    check_nothing_left();
}

/* In a huge page the room that is not carved yet is resident, though nobody has touched it. */
static void test_room_in_a_huge_page(void **state) {
    (void)state;
    need_small_pages();
    purge_all(0);
    holder.object_class = size_class_of(1024);
    hold(&holder, 0, 1);
    const struct span *slab = span_of_block(holder.blocks[0]);
    assert_true(slab->is_zero);
    assert_int_equal(slab_purge(true), 0);
    span_set_marks(slab->address, span_end(slab), MARK_HUGE, true);
    char *room = (char *)slab->address + (size_t)slab->carved_count * 1024;
    memset(room, 0, span_end(slab) - (uintptr_t)room); /* as if it came with the huge page */
    assert_true(slab_purge(true) > 0);
    check_resident(&holder);
    check_contents(&holder);
    assert_int_equal(slab->carved_count, size_classes[holder.object_class].capacity);
    span_set_marks(slab->address, span_end(slab), MARK_HUGE, false);
    drop_all(&holder);
    check_nothing_left();
}

/* The kernel takes no locked pages: they stay awake, and nobody asks again and again. */
static void test_locked_pages(void **state) {
    (void)state;
    need_small_pages();
    struct random random = unit_random();
    hold_slabs(size_class_of(3072), 3);
    const struct span *slab = span_of_block(holder.blocks[0]);
    void *address = (void *)slab->address;
    size_t size = span_size(slab);
    void *marker = holder.blocks[0];
    holder.blocks[0] = holder.blocks[--holder.count];
    drop_most(&holder, &random, 40);
    holder.blocks[holder.count++] = marker;
    if (is_emulated() || !unit_lock_pages(address, size)) {
        drop_all(&holder);
        skip(); /* needs the right to lock */
    }
    slab_purge(true);
    assert_int_equal(unit_resident(address, size), size);
    assert_int_equal(slab->asleep_pages, 0);
    assert_int_equal(slab->asleep_count, 0);
    assert_int_equal(slab->used_count + slab->free_count, slab->carved_count);
    assert_int_equal(slab_returnable_bytes(), 0);
    check_contents(&holder);
    hold_all(&holder, 0, 3 * 16);
    check_contents(&holder);
    unit_unlock_pages(address, size);
    drop_all(&holder);
    check_nothing_left();
}

/* Gives back what the choice says, by the block's place in its slab. */
static void drop_chosen(bool (*is_chosen)(size_t place)) {
    void *list = NULL;
    for (size_t i = holder.count; i-- > 0;) {
        uintptr_t offset = (uintptr_t)holder.blocks[i] - span_of_block(holder.blocks[i])->address;
        if (is_chosen(offset / size_of(holder.object_class))) {
            drop(&holder, i, &list);
        }
    }
    slab_release(holder.object_class, list);
}

/* Of 256 blocks of 64 bytes on four pages: all of the third page, and most of the others. */
static bool is_but_a_few(size_t place) {
    return place % 64 != 0 || place / 64 == 2;
}

/* A slab moves to another shard with what sleeps in it. */
static void test_shards_steal(void **state) {
    (void)state;
    need_small_pages();
    unsigned object_class = size_class_of(64);
    slab_initialise(2);
    hold_slabs(object_class, 4);
    drop_chosen(is_but_a_few);
    assert_int_equal(slab_purge(true), 4 * 4096);
    struct slab_totals before = totals();
    unsigned count = hold(&holder, 1, 256);
    const struct span *slab = span_of_block(holder.blocks[holder.count - 1]);
    assert_int_equal(load_relaxed(&slab->shard), 1);
    assert_int_equal(slab->asleep_count, 64);
    assert_int_equal(totals().slab_bytes, before.slab_bytes);
    assert_int_equal(totals().asleep_bytes, before.asleep_bytes);
    assert_int_equal(count, 256 - 64 - 3);
    assert_int_equal(hold(&holder, 1, 1), 64);
    assert_int_equal(totals().asleep_bytes, before.asleep_bytes - 4096);
    check_resident(&holder);
    check_contents(&holder);
    drop_all(&holder);
    check_nothing_left();
    slab_initialise(1);
}

/* Random walks: blocks come and go one by one or in bursts, pages sleep now and then. */
static void test_random_walk(void **state) {
    (void)state;
    static const uint16_t sizes[] = {16, 48, 512, 640, 2048, 3072, 5120, 7168, 20480, 30720};
    struct random random = unit_random();
    for (size_t walk = 0; walk < ARRAY_LENGTH(sizes); walk++) {
        holder.object_class = size_class_of(sizes[walk]);
        size_t capacity = size_classes[holder.object_class].capacity;
        size_t most = bits_min(8 * capacity, HELD_MAX / 2);
        for (size_t step = 0; step < scaled(150); step++) {
            switch (random_below(&random, 6)) {
            case 0:
            case 1:
                hold_all(&holder, 0, random_below(&random, most));
                break;
            case 2:
                drop_most(&holder, &random, 1 + (unsigned)random_below(&random, 50));
                break;
            case 3:
                for (void *list = NULL; holder.count; list = NULL) {
                    drop(&holder, random_below(&random, holder.count), &list);
                    slab_release(holder.object_class, list);
                    if (random_below(&random, 50) == 0) {
                        break;
                    }
                }
                break;
            case 4:
                slab_purge(false);
                break;
            default:
                slab_purge(true);
                check_resident(&holder);
                assert_int_equal(slab_returnable_bytes(), 0);
            }
            check_contents(&holder);
            assert_int_equal(totals().slab_bytes - totals().free_bytes, holder.count * sizes[walk]);
        }
        drop_all(&holder);
        check_nothing_left();
    }
}

static _Atomic bool is_forking;

/* A child forked in the middle of a purge has all locks free and nothing half asleep. */
static void fork_while_purged(unsigned number) {
    for (unsigned turn = 0; number == 0 && turn < 40; turn++) {
        pid_t child = fork();
        if (child == 0) {
            slab_purge(turn % 2);
            check_contents(&holder);
            hold_all(&holder, 0, holder.count * 2);
            check_contents(&holder);
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "the child failed: %d", status);
        atomic_store(&is_forking, turn < 39);
    }
    while (number == 1 && atomic_load(&is_forking)) {
        static struct holder other;
        struct random random = {1};
        other.object_class = size_class_of(2048);
        hold_all(&other, 0, 2000);
        drop_most(&other, &random, 20);
        slab_purge(true);
        drop_all(&other);
    }
}

static void test_fork(void **state) {
    (void)state;
    if (is_tsan()) {
        skip(); /* it knows no fork among threads */
    }
    hold_slabs(size_class_of(2048), 50);
    atomic_store(&is_forking, true);
    unit_run_threads(2, fork_while_purged);
    drop_all(&holder);
    check_nothing_left();
}

static void *purge_all_slabs(void *unused) {
    (void)unused;
    slab_purge(true);
    return NULL;
}

/* A purge that another thread is in when the process forks goes on in the parent only. */
static void test_fork_within_a_purge(void **state) {
    (void)state;
    need_small_pages();
    if (is_tsan() || is_emulated()) {
        skip(); /* neither knows a fork past libc's */
    }
    pthread_t other;
    struct random random = {1};
    hold_slabs(size_class_of(2048), 100);
    drop_most(&holder, &random, 10);
    lock_acquire_unranked(&slab_purge_lock);
    assert_int_equal(pthread_create(&other, NULL, purge_all_slabs, NULL), 0);
    usleep(100000); /* so that it waits for the lock; else this tells nothing, and passes */
    int status = -1;
    pid_t child = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0) {
        slab_fork_child();
        CHECK(slab_purge(false) == 0, "pages went that were touched a moment ago");
        _exit(0);
    }
    lock_release_unranked(&slab_purge_lock);
    pthread_join(other, NULL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    drop_all(&holder);
    check_nothing_left();
}

/* More blocks in use than 32 bits count: of 16 bytes each, 64 GiB. */
static void test_very_many_blocks(void **state) {
    (void)state;
    const uint64_t many = (uint64_t)1 << 32;
    unsigned object_class = size_class_of(16);
    struct slab_totals before = {0};
    struct slab_totals after = {0};
    slab_totals_add_class(&before, object_class);
    slab_first_shard.sets[object_class].used_count += many;
    slab_totals_add_class(&after, object_class);
    slab_first_shard.sets[object_class].used_count -= many;
    assert_int_equal(after.used_blocks - before.used_blocks, many);
}

int main(void) {
    unit_touch_single_pages();
    options.thp = THP_NEVER; /* where it is refused: a huge page is resident as a whole */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_class),
        cmocka_unit_test(test_waking_stops_at_page_end),
        cmocka_unit_test(test_idle_only),
        cmocka_unit_test(test_dirty_room),
        cmocka_unit_test(test_room_in_a_huge_page),
        cmocka_unit_test(test_locked_pages),
        cmocka_unit_test(test_shards_steal),
        cmocka_unit_test(test_random_walk),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_fork_within_a_purge),
        cmocka_unit_test(test_very_many_blocks),
    };
    return cmocka_run_group_tests_name("slab_purge", tests, NULL, NULL);
}
