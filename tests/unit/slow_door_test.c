#include "objects/slow_door.h"

#include "objects/allocate.h"
#include "objects/foreign.h"
#include "objects/size_class.h"
#include "objects/slab.h"
#include "objects/thread_cache.h"
#include "os/memory.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "pages/sparse.h"
#include "settings/options.h"
#include "primalloc.h"
#include "unit/unit.h"

static void test_any_size(void **state) {
    (void)state;
    for (size_t size = 0; size < (size_t)4 << 20; size += size / 20 + 1) {
        errno = ERRNO_MARK;
        void *block = allocate_slow(size);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % (size > 8 ? 16 : 8), 0);
        assert_true(usable_size(block) >= size);
        memset(block, 0x11, size);
        release_slow(block);
        assert_int_equal(errno, ERRNO_MARK);
    }
}

static void test_impossible_sizes(void **state) {
    (void)state;
    static const size_t sizes[] = {SIZE_MAX, PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1};
    unsigned object_class = size_class_of(100);
    release_slow(allocate_slow(100));
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        errno = 0;
        assert_null(allocate_slow(sizes[i]));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(allocate_zeroed(sizes[i], 0));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(allocate_aligned(sizes[i], 64));
        assert_int_equal(errno, ENOMEM);
    }
    errno = 0;
    assert_null(allocate_aligned(1, (size_t)1 << 63));
    assert_int_equal(errno, ENOMEM);
    assert_non_null(thread_cache_own()->head[object_class]); /* nothing was given up for these */
}

/* Memory that was used before is zero again, whichever way it comes. */
static void test_zeroed(void **state) {
    (void)state;
    for (size_t size = 1; size < (size_t)3 << 20; size += size / 8 + 1) {
        void *used = allocate_slow(size);
        memset(used, 0xff, usable_size(used));
        release_slow(used);
        unsigned char *block = allocate_zeroed(size, 0);
        assert_non_null(block);
        for (size_t i = 0; i < size; i++) {
            CHECK(block[i] == 0, "byte %zu of %zu", i, size);
        }
        memset(block, 0xff, usable_size(block));
        release_slow(block);
    }
}

static void test_aligned(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= (size_t)4 << 20; alignment *= 2) {
        for (size_t size = 0; size < 600000; size += size / 3 + 1) {
            void *first = allocate_aligned(size, alignment);
            void *second = allocate_aligned(size, alignment);
            assert_non_null(first);
            assert_non_null(second);
            assert_ptr_not_equal(first, second);
            assert_int_equal((uintptr_t)first % alignment, 0);
            assert_int_equal((uintptr_t)second % alignment, 0);
            assert_true(usable_size(first) >= size);
            memset(first, 0x22, size);
            memset(second, 0x33, size);
            assert_true(size == 0 || *(unsigned char *)first == 0x22);
            release_slow(first);
            release_slow(second);
        }
    }
}

static void test_min_align(void **state) {
    (void)state;
    void *blocks[64];
    options.min_align = 16;
    thread_cache_apply_options();
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        blocks[i] = allocate_slow(i % 9);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        release_slow(blocks[i]);
    }
    options.min_align = 8;
    thread_cache_apply_options();
}

static void test_release_of_strangers(void **state) {
    static int variable;
    uint64_t before = foreign_count();
    release_slow(NULL);
    assert_int_equal(foreign_count(), before);
    release_slow(&variable);
    release_slow(&state);
    assert_int_equal(foreign_count(), before + 2);
}

static unsigned cached_blocks(void) {
    struct thread_cache_totals totals = {0};
    unsigned sum = 0;
    thread_cache_totals_add(&totals);
    for (unsigned i = 0; i < BIN_COUNT; i++) {
        sum += totals.blocks[i];
    }
    return sum;
}

/* What bins hold from before goes back where large blocks make the heap grow, not where they come
 * and go. */
static void test_large_blocks_make_heap_grow(void **state) {
    (void)state;
    enum { COUNT = 8, SIZE = 4 << 20 };
    void *small[COUNT];
    void *large[COUNT];
    purge_all(0); /* pages that wait would be moved to the blocks */
    for (unsigned i = 0; i < COUNT; i++) {
        small[i] = allocate_slow(3000);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        release_slow(small[i]);
    }
    assert_true(cached_blocks() > 0);
    for (unsigned i = 0; i < COUNT; i++) {
        large[i] = allocate_slow(SIZE);
        assert_non_null(large[i]);
    }
    assert_int_equal(cached_blocks(), 0);
    small[0] = allocate_slow(3000);
    release_slow(small[0]);
    for (unsigned i = 0; i < COUNT; i++) {
        release_slow(large[i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        release_slow(allocate_slow(SIZE));
    }
    assert_true(cached_blocks() > 0);
}

/* While blocks stay untouched inside, those of up to 1 MiB are of classes, and come from the
 * thread's bins; but for those that leave at their end, those that shall be zero (fresh pages are,
 * without a touch), and those aligned to more than a slice. */
static void test_sparse_blocks(void **state) {
    (void)state;
    enum { SIZE = 300000 };
    store_relaxed(&sparse_is_on, true);
    void *blocks[] = {allocate_slow(SIZE), allocate_aligned(SIZE, 4096),
                      allocate_slow(SPARSE_SIZE_MAX)};
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        assert_in_range(span_class_of(blocks[i]), MEDIUM_CLASS_LAST + 1, CLASS_COUNT);
        assert_int_equal((uintptr_t)blocks[i] % 4096, 0);
        release(blocks[i]);
    }
    uint64_t spans = page_heap.span_total;
    for (unsigned i = 0; i < 10; i++) {
        release(allocate_slow(SIZE));
    }
    assert_int_equal(page_heap.span_total, spans);
    void *greater[] = {allocate_slow(SPARSE_SIZE_MAX + 1), allocate_aligned(SIZE, 2 * SLICE_SIZE),
                       allocate_zeroed(SIZE, 0), NULL, NULL};
    options.mmap_threshold = SIZE;
    greater[3] = allocate_slow(SIZE);
    options.mmap_threshold = OPTION_AUTO;
    store_relaxed(&sparse_is_on, false);
    greater[4] = allocate_slow(SIZE);
    for (size_t i = 0; i < ARRAY_LENGTH(greater); i++) {
        assert_int_equal(span_class_of(greater[i]), CLASS_LARGE);
        release(greater[i]);
    }
}

/* Zeros that fresh pages have anyway are not written: blocks that the program leaves as they are
 * stay without memory, whatever their class, and whether or not an alignment is asked for. */
static void test_zeroed_stays_untouched(void **state) {
    (void)state;
    enum { COUNT = 16, LARGEST = 2 << 20 };
    unsigned char *blocks[COUNT];
    size_t page = memory_page_size();
    thread_cache_flush(thread_cache_own());
    slab_trim();
    purge_all(0);
    size_t least = page > SLICE_SIZE ? 4 * page : SMALL_SIZE_MAX + 1; /* neighbours share pages */
    for (size_t size = least; size < LARGEST; size += size / 2) {
        size_t resident = 0;
        for (unsigned i = 0; i < COUNT; i++) {
            blocks[i] = allocate_zeroed(size, i % 2 ? 64 : 0);
            void *first = (void *)bits_round_down((uintptr_t)blocks[i], page);
            resident += unit_resident(first, size);
        }
        CHECK(resident < COUNT * size / 2, "%zu bytes of blocks of %zu are resident", resident,
              size);
        for (unsigned i = 0; i < COUNT; i++) {
            release_slow(blocks[i]);
        }
        purge_all(0);
    }
}

/* Nor are they of spans that were freed as they were, once a look has found some of these. */
static void test_zeroed_again_stays_untouched(void **state) {
    (void)state;
    enum { COUNT = 128, SIZE = 128 << 10 };
    static unsigned char *blocks[COUNT];
    size_t page = memory_page_size();
    size_t resident = 0;
    int purge = options.purge;
    options.purge = 1;
    purge_all(0);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            blocks[i] = allocate_zeroed(SIZE, 0);
            resident += round ? unit_resident(blocks[i], SIZE) : 0;
        }
        for (unsigned i = 0; i < COUNT; i++) {
            for (size_t at = 0; round && at < SIZE; at += page) {
                assert_int_equal(blocks[i][at], 0);
            }
            blocks[i][SIZE - 1] = 1;
            release_slow(blocks[i]);
        }
        thread_cache_flush(thread_cache_own());
    }
    options.purge = purge;
    CHECK(is_emulated() || resident < (size_t)COUNT * SIZE / 2, "%zu bytes are resident", resident);
}

/* Nor where a block is to grow from nothing. */
static void test_rezalloc_of_nothing_stays_untouched(void **state) {
    (void)state;
    enum { SIZE = 64 << 20 };
    unsigned char *block = prim_rezalloc(NULL, 0, SIZE);
    void *first = (void *)bits_round_down((uintptr_t)block, memory_page_size());
    assert_true(unit_resident(first, SIZE) < SIZE / 2);
    release_slow(block);
}

/* Blocks that are all of their slabs need no links: who frees one after the other touches few. */
static void test_freed_stays_untouched(void **state) {
    (void)state;
    enum { COUNT = 128, SIZE = 128 << 10 };
    static unsigned char *blocks[COUNT];
    size_t page = memory_page_size();
    unsigned touched = 0;
    purge_all(0);
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = allocate_slow(SIZE);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        release_slow(blocks[i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        touched += unit_resident(blocks[i], page) != 0;
    }
    CHECK(touched < COUNT / 4, "%u of %u blocks were touched", touched, (unsigned)COUNT);
}

static void test_everything_comes_back(void **state) {
    (void)state;
    thread_cache_flush(thread_cache_own());
    slab_trim();
    assert_int_equal(unit_slices_in_use(), 0);
}

int main(void) {
    unit_touch_single_pages();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_size),
        cmocka_unit_test(test_impossible_sizes),
        cmocka_unit_test(test_zeroed),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_min_align),
        cmocka_unit_test(test_release_of_strangers),
        cmocka_unit_test(test_large_blocks_make_heap_grow),
        cmocka_unit_test(test_sparse_blocks),
        cmocka_unit_test(test_zeroed_stays_untouched),
        cmocka_unit_test(test_zeroed_again_stays_untouched),
        cmocka_unit_test(test_rezalloc_of_nothing_stays_untouched),
        cmocka_unit_test(test_freed_stays_untouched),
        cmocka_unit_test(test_everything_comes_back),
    };
    return cmocka_run_group_tests_name("slow door", tests, NULL, NULL);
}
