#include "objects/allocate.h"
#include "objects/complaint.h"
#include "objects/foreign.h"
#include "objects/sampler.h"
#include "pages/page_heap.h"
#include "pages/span.h"
#include "pages/sparse.h"
#include "settings/options.h"
#include "unit/unit.h"

/* Sizes around the edges between classes and kinds of blocks. */
static const size_t sizes[] = {0,
                               1,
                               8,
                               9,
                               16,
                               17,
                               64,
                               100,
                               128,
                               129,
                               1000,
                               SMALL_SIZE_MAX,
                               SMALL_SIZE_MAX + 1,
                               5000,
                               16384,
                               100000,
                               MEDIUM_SIZE_MAX,
                               MEDIUM_SIZE_MAX + 1,
                               500000,
                               (size_t)1 << 20,
                               ((size_t)3 << 20) + 1};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void test_usable_size(void **state) {
    (void)state;
    static int variable;
    for (size_t size = 0; size < 3000000; size += size / 50 + 1) {
        void *block = allocate(size);
        assert_non_null(block);
        size_t usable = usable_size(block);
        assert_true(usable >= size && usable >= 8);
        assert_true(usable <= 16 + 2 * size || usable < size + SLICE_SIZE);
        memset(block, 0x55, usable);
        assert_int_equal(usable_size(block), usable);
        release(block);
    }
    void *large = allocate((size_t)1 << 20);
    assert_int_equal(usable_size(NULL), 0);
    assert_int_equal(usable_size(&variable), 0);
    assert_int_equal(usable_size(&state), 0);
    assert_int_equal(usable_size((char *)large + SLICE_SIZE), 0);
    release(large);
}

static void test_contents_are_kept(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(sizes); j++) {
            void *block = allocate(sizes[i]);
            void *neighbour = allocate(sizes[i]);
            fill_pattern(block, sizes[i], i);
            fill_pattern(neighbour, sizes[i], 99);
            errno = ERRNO_MARK;
            void *moved = reallocate(block, sizes[j]);
            size_t kept = smaller(sizes[i], sizes[j]);
            assert_non_null(moved);
            assert_int_equal(errno, ERRNO_MARK);
            assert_true(usable_size(moved) >= sizes[j]);
            assert_int_equal(check_pattern(moved, kept, i), kept);
            fill_pattern(moved, sizes[j], 7);
            assert_int_equal(check_pattern(neighbour, sizes[i], 99), sizes[i]);
            assert_int_equal(check_pattern(moved, sizes[j], 7), sizes[j]);
            release(moved);
            release(neighbour);
        }
    }
}

static void test_growing_step_by_step(void **state) {
    (void)state;
    void *block = NULL;
    size_t filled = 0;
    for (size_t size = 1; size < (size_t)4 << 20; size += size / 3 + 1) {
        block = reallocate(block, size);
        assert_non_null(block);
        assert_int_equal(check_pattern(block, filled, 4), filled);
        fill_pattern(block, size, 4);
        filled = size;
    }
    release(block);
}

/* A block that grows by little at a time moves once for each quarter, not once for each class. */
static void test_growing_by_little_moves_rarely(void **state) {
    (void)state;
    unsigned moves = 0;
    char *block = allocate(1024);
    for (size_t size = 1024; size <= (size_t)512 * 1024; size += 64) {
        char *before = block;
        block = reallocate(block, size);
        assert_non_null(block);
        moves += block != before;
    }
    release(block);
    CHECK(moves <= 24, "%u moves", moves); /* 13 quarters to 32 KiB, and some from there on */
}

/* A span that a block outgrew joins its neighbours at once: the next step may need it. */
static void test_outgrown_span_is_free(void **state) {
    (void)state;
    enum { SIZE = 48 * 1024, GROWN = 200 * 1024 };
    void *outgrown = allocate(SIZE);
    void *block = reallocate(outgrown, GROWN);
    assert_ptr_not_equal(block, outgrown);
    assert_int_equal(span_class_of(outgrown), 0);
    release(block);
}

/* Arrays that grow and shrink by leaps, as buffers do that live long, leave few pieces free. */
static void test_chains_are_packed(void **state) {
    (void)state;
    enum { COUNT = 200, STEPS = 100 * COUNT, LARGEST = 256 * 1024, LEAST = 16 };
    static void *arrays[COUNT];
    static size_t array_sizes[COUNT];
    uint64_t random = 1;
    size_t start = page_heap_resident_bytes();
    size_t live = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned a = (unsigned)(random >> 33) % COUNT;
        size_t from = array_sizes[a] ? array_sizes[a] : LEAST;
        size_t to = from / 2 + (size_t)(random >> 20) % (from + from / 2 + 1);
        to = to < LEAST ? LEAST : smaller(to, LARGEST);
        arrays[a] = reallocate(arrays[a], to);
        assert_non_null(arrays[a]);
        live += to - array_sizes[a];
        array_sizes[a] = to;
    }
    size_t held = page_heap_resident_bytes() - start;
    for (unsigned a = 0; a < COUNT; a++) {
        release(arrays[a]);
        arrays[a] = NULL;
        array_sizes[a] = 0;
    }
    CHECK(held <= live + live / 3, "%zu bytes held for %zu", held, live);
}

static size_t sampled_size;

static void begin_sample(void *block, const struct sample *sample) {
    (void)block;
    sampled_size = sample->size;
}

/* The quarter more is ours: who looks is told what the program asked for. */
static void test_sampled_size_is_the_asked_one(void **state) {
    (void)state;
    static struct sampler_user user = {.begin = begin_sample};
    for (size_t size = 1100; size <= 30000; size += size / 3) {
        void *block = allocate(size);
        size_t asked = usable_size(block) + 1;
        assert_true(sampler_start(&user, 1)); /* every allocation is sampled */
        block = reallocate(block, asked);
        sampler_stop(&user);
        CHECK(sampled_size == asked, "asked for %zu bytes, %zu were sampled", asked, sampled_size);
        release(block);
    }
}

static void test_fitting_block_stays(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *block = allocate(sizes[i]);
        assert_ptr_equal(reallocate(block, sizes[i]), block);
        assert_ptr_equal(reallocate(block, usable_size(block)), block);
        release(block);
    }
}

static void test_much_smaller_gives_memory_back(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        if (sizes[i] >= 64) {
            void *block = reallocate(allocate(sizes[i]), sizes[i] / 8);
            assert_true(usable_size(block) < sizes[i]);
            release(block);
        }
    }
}

/* A block of a class that large ones have while they stay untouched moves once, and then grows in
 * its place or by its pages. */
static void test_sparse_block_gets_a_span(void **state) {
    (void)state;
    enum { SIZE = 300000, GROWN = 700000 };
    store_relaxed(&sparse_is_on, true);
    void *block = allocate(SIZE);
    assert_int_not_equal(span_class_of(block), CLASS_LARGE);
    fill_pattern(block, SIZE, 13);
    block = reallocate(block, GROWN);
    store_relaxed(&sparse_is_on, false);
    assert_int_equal(span_class_of(block), CLASS_LARGE);
    assert_int_equal(check_pattern(block, SIZE, 13), SIZE);
    release(block);
}

static void test_null_is_an_allocation(void **state) {
    (void)state;
    void *block = reallocate(NULL, 100);
    assert_non_null(block);
    assert_true(usable_size(block) >= 100);
    release(block);
}

static void test_failure_leaves_the_block(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *block = allocate(sizes[i]);
        fill_pattern(block, sizes[i], 12);
        errno = 0;
        assert_null(reallocate(block, PTRDIFF_MAX));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(reallocate(block, SIZE_MAX));
        assert_int_equal(errno, ENOMEM);
        assert_int_equal(check_pattern(block, sizes[i], 12), sizes[i]);
        release(block);
    }
}

static unsigned told;

static void listen(int error, const char *text, void *context) {
    told += error == ENOMEM && text && !context;
}

/* Whatever kind of block it is that cannot grow. */
static void test_failure_is_told_once(void **state) {
    (void)state;
    complaint_set_function(listen, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *block = allocate(sizes[i]);
        told = 0;
        assert_null(reallocate(block, PTRDIFF_MAX));
        CHECK(told == 1, "told %u times of a block of %zu bytes", told, sizes[i]);
        release(block);
    }
    complaint_set_function(NULL, NULL);
}

static void test_foreign(void **state) {
    (void)state;
    static long variable = 5;
    uint64_t before = foreign_count();
    errno = 0;
    assert_null(reallocate(&variable, 100));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(foreign_count(), before + 1);
    assert_int_equal(variable, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usable_size),
        cmocka_unit_test(test_sparse_block_gets_a_span),
        cmocka_unit_test(test_contents_are_kept),
        cmocka_unit_test(test_growing_step_by_step),
        cmocka_unit_test(test_growing_by_little_moves_rarely),
        cmocka_unit_test(test_outgrown_span_is_free),
        cmocka_unit_test(test_chains_are_packed),
        cmocka_unit_test(test_sampled_size_is_the_asked_one),
        cmocka_unit_test(test_fitting_block_stays),
        cmocka_unit_test(test_much_smaller_gives_memory_back),
        cmocka_unit_test(test_null_is_an_allocation),
        cmocka_unit_test(test_failure_leaves_the_block),
        cmocka_unit_test(test_failure_is_told_once),
        cmocka_unit_test(test_foreign),
    };
    return cmocka_run_group_tests_name("reallocate", tests, NULL, NULL);
}
