#include "objects/slab.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/atomics.h"
#include "objects/size_class.h"
#include "os/memory.h"
#include "pages/purge.h"
#include "pages/span.h"
#include "unit/slab_lists.h"
#include "unit/unit.h"

enum { THREADS = 4, LISTS_MAX = 8192 };

/* A slab of one block is a span like that of a large block. */
static bool is_single(unsigned object_class) {
    return size_classes[object_class].capacity == 1;
}

/* A block of this class at this place: in a slab, at a multiple of the size, inside. */
static void check_place(const void *block, unsigned object_class) {
    const struct span *slab = span_of_block(block);
    size_t size = size_classes[object_class].size;
    size_t offset = (uintptr_t)block - slab->address;
    CHECK(span_class_of(block) == object_class, "class %u, not %u", span_class_of(block),
          object_class);
    enum span_state state = is_single(object_class) ? SPAN_LARGE : SPAN_SLAB;
    CHECK(span_state(slab) == state && slab->slice_count == size_classes[object_class].slices,
          "class %u lies in no slab of its own", object_class);
    CHECK(offset % size == 0 && offset / size < size_classes[object_class].capacity,
          "class %u: a block at offset %zu", object_class, offset);
}

/* Of every class: the counts are true, blocks are where they should be, all memory comes back. */
static void test_every_class(void **state) {
    (void)state;
    slab_initialise(1);
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        static void *lists[64];
        size_t count = 0;
        for (size_t i = 0; i < ARRAY_LENGTH(lists); i++) {
            lists[i] = acquire(0, object_class, 1 + (unsigned)i % 40);
            count += length(lists[i]);
            for (const void *block = lists[i]; block; block = *(void *const *)block) {
                check_place(block, object_class);
            }
        }
        struct slab_totals now = totals();
        size_t singles = is_single(object_class) ? count * size_classes[object_class].slices : 0;
        size_t in_slabs = is_single(object_class) ? 0 : count;
        assert_int_equal(now.slab_bytes - now.free_bytes,
                         in_slabs * size_classes[object_class].size);
        assert_int_equal((unit_slices_in_use() - singles) * SLICE_SIZE, now.slab_bytes);
        for (size_t i = 0; i < ARRAY_LENGTH(lists); i++) {
            slab_release(object_class, lists[i]);
        }
        check_nothing_left();
    }
}

static bool is_resident(const void *block) {
    uintptr_t page = (uintptr_t)block & ~(uintptr_t)(memory_page_size() - 1);
    unsigned char state = 0;
    CHECK(mincore((void *)page, 1, &state) == 0, "mincore: %d", errno);
    return state & 1;
}

/* Among several threads a page's first block comes alone, before anybody touched the page. */
static void check_come_untouched(unsigned shard, size_t size) {
    static void *kept[100];
    unsigned object_class = size_class_of(size);
    size_t most = ARRAY_LENGTH(kept) / bits_max(memory_page_size() / size, 1);
    size_t untouched = 0;
    purge_all(0);
    for (size_t i = 0; i < ARRAY_LENGTH(kept); i++) {
        unsigned count = slab_acquire(shard, object_class, 2, &kept[i], NULL);
        untouched += !is_resident(kept[i]);
        *(void **)kept[i] = count == 1 ? NULL : *(void **)kept[i];
    }
    CHECK(most == 0 || untouched > most / 2, /* none where all are of one page */
          "shard %u, %zu bytes: %zu of %zu pages came untouched", shard, size, untouched, most);
    for (size_t i = 0; i < ARRAY_LENGTH(kept); i++) {
        slab_release(object_class, kept[i]);
    }
}

static void test_pages_come_untouched(void **state) {
    (void)state;
    for (unsigned shards = 1; shards <= 2; shards++) {
        slab_initialise(shards);
        check_come_untouched(shards - 1, 208);
        check_come_untouched(shards - 1, 1024);
        check_come_untouched(shards - 1, 8192);
    }
    check_nothing_left();
}

static int by_address(const void *a, const void *b) {
    uintptr_t left = *(const uintptr_t *)a;
    uintptr_t right = *(const uintptr_t *)b;
    return (left > right) - (left < right);
}

static void test_blocks_are_disjoint(void **state) {
    (void)state;
    static uintptr_t blocks[20000];
    size_t count = 0;
    while (count + 4096 < ARRAY_LENGTH(blocks)) {
        for (void *block = acquire(0, CLASS_OF_16, 32); block; block = *(void **)block) {
            blocks[count++] = (uintptr_t)block;
        }
    }
    qsort(blocks, count, sizeof blocks[0], by_address);
    for (size_t i = 1; i < count; i++) {
        assert_true(blocks[i] - blocks[i - 1] >= 16);
    }
    for (size_t i = 0; i < count; i++) {
        *(void **)blocks[i] = i + 1 < count ? (void *)blocks[i + 1] : NULL;
    }
    slab_release(CLASS_OF_16, (void *)blocks[0]);
    check_nothing_left();
}

/* Whoever wants one block of a new slab gets what its page of the system holds and no more: the
 * next page stays untouched. */
static void test_carving_stops_at_page_end(void **state) {
    (void)state;
    size_t page = memory_page_size();
    for (unsigned object_class = 1; size_classes[object_class].size <= 1024; object_class++) {
        size_t size = size_classes[object_class].size;
        void *list = acquire(0, object_class, 1);
        uintptr_t first = (uintptr_t)list;
        uintptr_t end = first;
        for (void *block = list; block; block = *(void **)block) {
            first = bits_min(first, (uintptr_t)block);
            end = bits_max(end, (uintptr_t)block + size);
        }
        CHECK(end <= bits_round_up(first + size, page), "%zu bytes: %zu bytes were carved", size,
              (size_t)(end - first));
        slab_release(object_class, list);
        check_nothing_left();
    }
}

/* Without a second thread a list goes back to its slabs. */
static void test_one_thread_keeps_no_list(void **state) {
    (void)state;
    unsigned object_class = size_class_of(64);
    void *list = acquire(0, object_class, 32);
    assert_int_equal(slab_keep(0, object_class, list, length(list)), SLAB_IDLE);
    slab_initialise(1);
    assert_int_equal(slab_keep(0, object_class, list, length(list)), SLAB_KEPT);
    slab_trim();
    check_nothing_left();
}

/* A slab whose last block comes back is in the page heap at once, without any trimming. */
static void test_emptied_slabs_return(void **state) {
    (void)state;
    static void *lists[LISTS_MAX];
    unsigned object_class = size_class_of(512);
    size_t slab = (size_t)size_classes[object_class].slices;
    size_t count = 0;
    while (unit_slices_in_use() < 20 * slab) {
        assert_true(count < LISTS_MAX);
        lists[count++] = acquire(0, object_class, 8);
    }
    for (size_t i = 0; i < count; i++) {
        slab_release(object_class, lists[i]);
    }
    assert_true(unit_slices_in_use() <= 2 * slab);
    check_nothing_left();
}

/* Fills slabs of a shard and gives all back but every eighth block; returns the list of those. */
static void *leave_an_eighth(unsigned shard, unsigned object_class, size_t wanted) {
    void *kept = NULL;
    void *rest = NULL;
    for (size_t count = 0; count < wanted;) {
        void *list = acquire(shard, object_class, 32);
        while (list) {
            void *block = list;
            void **target = count++ % 8 == 0 ? &kept : &rest;
            list = *(void **)block;
            *(void **)block = *target;
            *target = block;
        }
    }
    slab_release(object_class, rest);
    return kept;
}

/* A shard that runs empty takes a slab with much room from another one before it asks for more
 * memory, and the blocks of such a slab find their way back. */
static void test_shards_steal(void **state) {
    (void)state;
    unsigned object_class = size_class_of(64);
    slab_initialise(2);
    void *kept = leave_an_eighth(0, object_class, 8 * size_classes[object_class].capacity);
    struct slab_totals before = totals();
    void *stolen = acquire(1, object_class, 16);
    struct slab_totals after = totals();
    check_place(stolen, object_class);
    assert_int_equal(after.slab_bytes, before.slab_bytes);
    assert_int_equal(before.free_bytes - after.free_bytes, length(stolen) * 64);
    assert_int_equal(load_relaxed(&span_of_block(stolen)->shard), 1);
    slab_release(object_class, kept);
    slab_release(object_class, stolen);
    check_nothing_left();
    slab_initialise(1);
}

/* What is returnable is about what lies in free blocks, and nothing when there are none. */
static void test_returnable_bytes(void **state) {
    (void)state;
    unsigned object_class = size_class_of(64);
    assert_int_equal(slab_returnable_bytes(), 0);
    void *kept = leave_an_eighth(0, object_class, 8 * size_classes[object_class].capacity);
    assert_int_equal(slab_returnable_bytes(), totals().free_blocks * 64);
    slab_release(object_class, kept);
    check_nothing_left();
    assert_int_equal(slab_returnable_bytes(), 0);
}

/* A list that was given comes back as it is, in its own shard and in the other one; a long one in
 * parts; and everything goes back to the slabs. */
static void test_given_lists(void **state) {
    (void)state;
    enum { WANTED = 8 };
    unsigned object_class = size_class_of(64);
    slab_initialise(2);
    for (unsigned shard = 0; shard < 2; shard++) {
        void *list = acquire(0, object_class, WANTED);
        void *second = *(void **)list;
        unsigned count = length(list);
        slab_keep(0, object_class, list, count);
        assert_int_equal(totals().listed_blocks, count);
        assert_int_equal(slab_returnable_bytes(),
                         (totals().free_blocks + totals().listed_blocks) * 64);
        void *same = NULL;
        assert_int_equal(slab_acquire(shard, object_class, count, &same, NULL), count);
        assert_ptr_equal(same, list);
        assert_ptr_equal(*(void **)same, second);
        assert_int_equal(totals().listed_blocks, 0);
        slab_release(object_class, same);
        check_nothing_left();
    }
    void *all = NULL;
    unsigned count = 0;
    while (count <= 4 * WANTED) {
        void *list = acquire(0, object_class, 2 * WANTED);
        for (void *next; list; list = next, count++) {
            next = *(void **)list;
            *(void **)list = all;
            all = list;
        }
    }
    slab_keep(0, object_class, all, count);
    void *part = acquire(0, object_class, WANTED);
    assert_ptr_equal(part, all);
    assert_int_equal(length(part), WANTED);
    assert_int_equal(totals().listed_blocks, count - WANTED);
    slab_release(object_class, part);
    check_nothing_left();
    assert_int_equal(totals().listed_blocks, 0);
    slab_initialise(1);
}

/* What nobody took between two visits goes back, one list by a tick, and no more are kept until
 * somebody takes blocks; what was taken stays. */
static void test_idle_lists_go_back(void **state) {
    (void)state;
    enum { LISTS = 5, WANTED = 8, TICKS_OF_A_VISIT = CLASS_COUNT };
    unsigned object_class = size_class_of(64);
    void *lists[LISTS];
    unsigned counts[LISTS];
    unsigned sum = 0;
    void *late = acquire(0, object_class, WANTED);
    for (unsigned i = 0; i < LISTS; i++) {
        lists[i] = acquire(0, object_class, WANTED);
        counts[i] = length(lists[i]);
    }
    for (unsigned i = 0; i < LISTS; i++) {
        slab_keep(0, object_class, lists[i], counts[i]);
        sum += counts[i];
    }
    unsigned steps = 0;
    for (unsigned tick = 0; tick < 4 * TICKS_OF_A_VISIT && totals().listed_blocks; tick++) {
        size_t before = totals().listed_blocks;
        slab_tick();
        assert_true(before - totals().listed_blocks <= sum);
        assert_int_equal(before != totals().listed_blocks, load_relaxed(&slab_tick_is_due));
        steps += before != totals().listed_blocks;
    }
    assert_int_equal(totals().listed_blocks, 0);
    assert_int_equal(steps, LISTS);
    assert_int_equal(slab_keep(0, object_class, late, length(late)), SLAB_IDLE);
    slab_initialise(2);
    slab_release(object_class, acquire(1, object_class, WANTED)); /* from whatever shard */
    assert_int_equal(slab_keep(0, object_class, late, length(late)), SLAB_KEPT);
    slab_initialise(1);
    check_nothing_left();
    void *list = acquire(0, object_class, WANTED);
    unsigned count = length(list);
    for (unsigned tick = 0; tick < 4 * TICKS_OF_A_VISIT; tick++) {
        slab_keep(0, object_class, list, count);
        assert_int_equal(totals().listed_blocks, count);
        slab_tick();
        assert_int_equal(slab_acquire(0, object_class, count, &list, NULL), count);
    }
    slab_release(object_class, list);
    check_nothing_left();
}

/* Shards are made where somebody refills, so there may be some behind one that is not there. */
static void test_lists_behind_a_gap_go_back(void **state) {
    (void)state;
    enum { FAR = 6, WANTED = 8 };
    unsigned object_class = size_class_of(64);
    slab_initialise(FAR + 2);
    void *list = acquire(FAR, object_class, WANTED);
    assert_int_equal(slab_keep(FAR, object_class, list, length(list)), SLAB_KEPT);
    for (unsigned tick = 0; tick < 8 * CLASS_COUNT && totals().listed_blocks; tick++) {
        slab_tick();
    }
    assert_int_equal(totals().listed_blocks, 0);
    slab_initialise(1);
    check_nothing_left();
}

/* A list that is little beside what the class has in use would hardly empty a slab: it stays until
 * that is no longer so. */
static void test_little_stays_listed(void **state) {
    (void)state;
    enum { LISTED = 8, TIMES = 4, TICKS = 4 * CLASS_COUNT };
    unsigned object_class = size_class_of(64);
    void *in_use[TIMES];
    void *list = acquire(0, object_class, LISTED);
    unsigned count = length(list);
    for (unsigned i = 0; i < TIMES; i++) {
        in_use[i] = acquire(0, object_class, count);
    }
    slab_keep(0, object_class, list, count);
    for (unsigned tick = 0; tick < TICKS; tick++) {
        slab_tick();
    }
    assert_int_equal(totals().listed_blocks, count);
    for (unsigned i = 0; i < TIMES; i++) {
        slab_release(object_class, in_use[i]);
    }
    for (unsigned tick = 0; tick < TICKS; tick++) {
        slab_tick();
    }
    assert_int_equal(totals().listed_blocks, 0);
    check_nothing_left();
}

/* A call that is to be short gives back what it can, be the blocks of slabs that go with them or of
 * such that stay. */
static void test_some_of_a_list_is_released(void **state) {
    (void)state;
    enum { LITTLE = SLAB_LITTLE_EFFORT, SLABS = 3 * LITTLE };
    unsigned object_class = size_class_of(4096);
    for (int is_emptied = 0; is_emptied <= 1; is_emptied++) {
        void *list = NULL;
        void *others = fill_slabs(object_class, SLABS, &list);
        if (is_emptied) {
            slab_release(object_class, others);
        }
        unsigned left = slab_release_some(object_class, &list, SLABS, LITTLE, false);
        assert_int_equal(left, length(list));
        assert_in_range(SLABS - left, 1, is_emptied ? LITTLE / 4 : LITTLE);
        while (left) {
            left = slab_release_some(object_class, &list, left, LITTLE, true);
            assert_int_equal(left, length(list));
        }
        if (!is_emptied) {
            slab_release(object_class, others);
        }
        slab_trim();
        check_nothing_left();
    }
}

static void test_shards_keep_apart(void **state) {
    (void)state;
    unsigned object_class = size_class_of(64);
    slab_initialise(2);
    void *first = acquire(0, object_class, 1);
    void *second = acquire(1, object_class, 1);
    assert_ptr_not_equal(span_of_block(first), span_of_block(second));
    assert_true(slab_current_shard() < 2);
    slab_release(object_class, first);
    slab_release(object_class, second);
    check_nothing_left();
    slab_initialise(1);
    assert_int_equal(slab_current_shard(), 0);
}

static void test_number_of_shards(void **state) {
    (void)state;
    slab_initialise(0);
    assert_true(slab_current_shard() < SHARD_MAX);
    slab_initialise(100000);
    assert_true(slab_current_shard() < SHARD_MAX);
    slab_initialise(1);
}

/* Every block that a thread holds says so in its second word; a block that two threads hold, or
 * that is in a list of free blocks, would be found with the mark. */
static const uint64_t held = 0x68656c64;
static _Atomic(void *) exchange[16];

static _Atomic uint64_t *mark_of(void *block) {
    return (_Atomic uint64_t *)block + 1;
}

static void mark_list(void *list) {
    for (void *block = list; block; block = *(void **)block) {
        CHECK(exchange_acquire(mark_of(block), held) != held, "a block was handed out twice");
    }
}

static void release_marked(unsigned object_class, void *list) {
    for (void *block = list; block; block = *(void **)block) {
        CHECK(exchange_acquire(mark_of(block), 0) == held, "a block in use lost its contents");
    }
    slab_release(object_class, list);
}

static unsigned class_of_slot(size_t slot) {
    static const uint16_t sizes[] = {16, 64, 512, 4096};
    return size_class_of(sizes[slot % ARRAY_LENGTH(sizes)]);
}

static void acquire_and_exchange(unsigned number) {
    struct random random = {number + 1};
    for (size_t i = 0; i < scaled(4000); i++) {
        size_t slot = random_below(&random, ARRAY_LENGTH(exchange));
        unsigned object_class = class_of_slot(slot);
        void *list = NULL;
        if (random_below(&random, 3) != 0) {
            list = acquire(number % 2, object_class, 1 + (unsigned)random_below(&random, 32));
            mark_list(list);
        }
        list = atomic_exchange(&exchange[slot], list);
        release_marked(object_class, list);
    }
}

static void test_threads(void **state) {
    (void)state;
    slab_initialise(2);
    unit_run_threads(THREADS, acquire_and_exchange);
    for (size_t slot = 0; slot < ARRAY_LENGTH(exchange); slot++) {
        release_marked(class_of_slot(slot), atomic_exchange(&exchange[slot], NULL));
    }
    check_nothing_left();
    slab_initialise(1);
}

int main(void) {
    unit_touch_single_pages();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_carving_stops_at_page_end), /* the first two: as for one thread */
        cmocka_unit_test(test_one_thread_keeps_no_list),
        cmocka_unit_test(test_pages_come_untouched), /* hardly a page is dirty yet */
        cmocka_unit_test(test_every_class),
        cmocka_unit_test(test_blocks_are_disjoint),
        cmocka_unit_test(test_emptied_slabs_return),
        cmocka_unit_test(test_shards_steal),
        cmocka_unit_test(test_returnable_bytes),
        cmocka_unit_test(test_given_lists),
        cmocka_unit_test(test_idle_lists_go_back),
        cmocka_unit_test(test_lists_behind_a_gap_go_back),
        cmocka_unit_test(test_little_stays_listed),
        cmocka_unit_test(test_some_of_a_list_is_released),
        cmocka_unit_test(test_shards_keep_apart),
        cmocka_unit_test(test_number_of_shards),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
