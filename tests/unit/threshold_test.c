#include "objects/threshold.h"

#include "objects/allocate.h"
#include "objects/heap.h"
#include "objects/large.h"
#include "os/memory.h"
#include "pages/purge.h"
#include "settings/options.h"
#include "unit/unit.h"

static struct options defaults;

static void set(uint64_t threshold, uint64_t most) {
    options = defaults;
    options.mmap_threshold = threshold;
    options.mmap_max = most;
    heap_apply_options();
}

/* A touched block, as the program gets it. */
static char *take(size_t size) {
    char *block = allocate(size);
    assert_non_null(block);
    return memset(block, 1, size);
}

static bool is_large(const void *block) {
    return span_class_of(block) == CLASS_LARGE;
}

/* The whole pages in a range: larger ones than slices are shared with what lies beside it. */
struct pages {
    void *start;
    size_t size;
};

static struct pages pages_in(const void *address, size_t size) {
    uintptr_t start = bits_round_up((uintptr_t)address, memory_page_size());
    uintptr_t end = bits_round_down((uintptr_t)address + size, memory_page_size());
    return (struct pages){(void *)start, end > start ? end - start : 0};
}

/* Whether the whole pages of a block that is freed leave; where it has none, that is so, too. */
static bool leaves(void *block) {
    struct pages pages = pages_in(block, span_size(span_of_block(block)));
    release(block);
    size_t resident = unit_resident(pages.start, pages.size);
    assert_true(resident == 0 || resident == pages.size);
    return resident == 0;
}

static void test_off_by_default(void **state) {
    (void)state;
    set(OPTION_AUTO, 65536);
    assert_int_equal(threshold_large_size_min, MEDIUM_SIZE_MAX + 1);
    char *medium = take(MEDIUM_SIZE_MAX);
    assert_false(is_large(medium));
    release(medium);
    assert_false(leaves(take(1 << 20)));
    set(50000, 0);
    assert_int_equal(threshold_large_size_min, MEDIUM_SIZE_MAX + 1);
    assert_false(leaves(take(1 << 20)));
}

/* Every threshold: sizes from it on are large, none that is a class smaller is. */
static void test_any_threshold(void **state) {
    (void)state;
    for (size_t threshold = 0; threshold <= MEDIUM_SIZE_MAX; threshold += 1 + threshold / 7) {
        set(threshold, 65536);
        size_t least = threshold_large_size_min;
        CHECK(least >= 1 && least <= bits_max(threshold, 1), "%zu: from %zu", threshold, least);
        size_t class_step = threshold > EIGHTHS_SIZE_MAX ? SLICE_SIZE : threshold / 8;
        CHECK(threshold < 200 || least > threshold - class_step, "%zu: from %zu", threshold, least);
        char *blocks[] = {take(bits_max(threshold, 1)), take(least), allocate(least - 1)};
        CHECK(is_large(blocks[0]) && is_large(blocks[1]) && !is_large(blocks[2]), "%zu", threshold);
        char *zeroed = allocate_zeroed(least, 0);
        char *aligned = allocate_aligned(bits_max(threshold, 1), 64);
        CHECK(is_large(zeroed) && is_large(aligned), "%zu", threshold);
        release(blocks[2]);
        CHECK(leaves(memset(zeroed, 1, SLICE_SIZE)) && leaves(memset(aligned, 1, SLICE_SIZE)) &&
                  leaves(memset(blocks[0], 1, span_size(span_of_block(blocks[0])))),
              "%zu", threshold);
        release(blocks[1]);
    }
}

static void test_above_the_medium_sizes(void **state) {
    (void)state;
    set(1 << 20, 65536);
    assert_int_equal(threshold_large_size_min, MEDIUM_SIZE_MAX + 1);
    assert_false(leaves(take((1 << 20) - SLICE_SIZE)));
    assert_true(leaves(take(1 << 20)));
}

static void test_at_most_so_many(void **state) {
    (void)state;
    enum { MOST = 5 };
    set(1 << 20, MOST);
    for (int round = 0; round < 3; round++) {
        char *blocks[2 * MOST];
        unsigned left = 0;
        for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
            blocks[i] = take(1 << 20);
        }
        for (size_t i = ARRAY_LENGTH(blocks); i--;) {
            left += leaves(blocks[i]);
        }
        assert_int_equal(left, MOST);
    }
}

static void test_reallocation(void **state) {
    (void)state;
    enum { BIG = 4 << 20, SMALL = 2 << 20 };
    set(1 << 20, 1);
    char *block = take(BIG);
    char *shrunk = reallocate(block, SMALL);
    assert_ptr_equal(shrunk, block);
    struct pages rest = pages_in(block + SMALL, BIG - SMALL);
    assert_int_equal(unit_resident(rest.start, rest.size), 0);
    char *barrier = take(BIG); /* one too many for the property */
    char *grown = reallocate(shrunk, 8 * (size_t)BIG);
    assert_non_null(grown);
    assert_int_equal(grown[SMALL - 1], 1);
    memset(grown, 1, 8 * (size_t)BIG);
    release(grown);
    assert_false(leaves(barrier));
    purge_all(0);
    assert_true(leaves(take(BIG))); /* whichever way it went, the count is back at 0 */
}

/* Of the system's pool nobody promises other pages for the place, and of a part of a huge page the
 * kernel says that it went, and leaves it there: calloc must not take it for zero. */
static void test_pool_keeps_its_pages(void **state) {
    (void)state;
    enum { SIZE = 4 << 20 };
    set(1 << 20, 65536);
    char *block = take(SIZE);
    uintptr_t start = bits_round_down((uintptr_t)block, HUGE_SIZE);
    uintptr_t end = bits_round_up((uintptr_t)block + SIZE, HUGE_SIZE);
    span_set_marks(start, end, MARK_POOL, true);
    assert_ptr_equal(reallocate(block, SIZE - (1 << 20)), block);
    bool is_left = leaves(block);
    span_set_marks(start, end, MARK_POOL, false);
    struct pages pages = pages_in(block, SIZE);
    assert_false(is_left);
    assert_int_equal(unit_resident(pages.start, pages.size), pages.size);
}

int main(void) {
    expect_allocator();
    options.maintenance = 0; /* these tests change options that its thread reads */
    options.purge_delay =
        3600 * 1000; /* on a slow machine, what is just freed may be purged, too */
    defaults = options;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_by_default),         cmocka_unit_test(test_any_threshold),
        cmocka_unit_test(test_above_the_medium_sizes), cmocka_unit_test(test_at_most_so_many),
        cmocka_unit_test(test_reallocation),           cmocka_unit_test(test_pool_keeps_its_pages),
    };
    return cmocka_run_group_tests_name("threshold", tests, NULL, NULL);
}
