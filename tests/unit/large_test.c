#include "objects/large.h"

#include "base/bits.h"
#include "objects/heap.h"
#include "objects/size_class.h"
#include "os/memory.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "settings/options.h"
#include "unit/unit.h"

static const size_t mebibyte = (size_t)1 << 20;

static bool is_zero(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void *new_block(size_t size, size_t alignment, bool *zero) {
    struct span *span = large_allocate(size, alignment, zero);
    return span ? (void *)span->address : NULL;
}

static struct span *take(size_t size) {
    struct span *span = large_allocate(size, 0, NULL);
    assert_non_null(span);
    assert_ptr_equal(span, span_of_block((void *)span->address));
    return span;
}

static void test_sizes_and_alignments(void **state) {
    (void)state;
    for (size_t size = MEDIUM_SIZE_MAX + 1; size < 5 * mebibyte; size = size * 5 / 4) {
        for (size_t alignment = 8; alignment <= 4 * mebibyte; alignment *= 4) {
            bool zero = false;
            void *block = new_block(size, alignment, &zero);
            assert_non_null(block);
            struct span *span = span_of_block(block);
            assert_int_equal((uintptr_t)block % alignment, 0);
            assert_int_equal((uintptr_t)block % SLICE_SIZE, 0);
            assert_int_equal(span->address, (uintptr_t)block);
            assert_int_equal(span_state(span), SPAN_LARGE);
            assert_int_equal(span_class_of(block), CLASS_LARGE);
            assert_int_equal(span_class_of((char *)block + SLICE_SIZE), 0);
            assert_true(span_size(span) >= size && span_size(span) < size + SLICE_SIZE);
            assert_true(!zero || is_zero(block, size));
            memset(block, 0xee, size);
            large_release(span);
            assert_int_equal(span_class_of(block), 0);
        }
    }
    assert_int_equal(unit_slices_in_use(), 0);
}

/* Of pages larger than slices, a purge leaves parts, which join what is freed from below. */
static bool is_at(uintptr_t address, const void *block) {
    return address - (uintptr_t)block < bits_max(memory_page_size(), SLICE_SIZE);
}

/* Who asks for zeros gets them of memory that is hardly touched without its being touched. */
static void test_zero_of_bare_memory(void **state) {
    (void)state;
    const size_t size = 16 * mebibyte;
    purge_all(0);
    unsigned char *block = new_block(size, 0, NULL);
    assert_non_null(block);
    unsigned char *at = block;
    for (int i = 0; i < 3; i++) {
        at[i] = 1;
        at[size - 1] = 1;
        large_release(span_of_block(at));
        bool zero = false;
        options.purge = 1;
        at = new_block(size, 0, &zero);
        options.purge = 0;
        assert_ptr_equal(at, block);
        assert_true(zero && at[i] == 0 && at[size - 1] == 0);
        assert_true(is_emulated() || memory_resident(at, size) < size / 4);
    }
    at[0] = 1;
    large_release(span_of_block(at));
    bool zero = true;
    at = new_block(size, 0, &zero);
    assert_true(at == block && !zero && at[0] == 1); /* who wants no purges keeps its page */
    memset(at, 1, size);
    large_release(span_of_block(at));
    zero = true;
    at = new_block(size, 0, &zero);
    assert_true(at == block && !zero && at[0] == 1); /* to fault it all in would take longer */
    large_release(span_of_block(at));
}

/* Fresh memory is known to be zero, used memory is not, purged memory is again. */
static void test_zero(void **state) {
    (void)state;
    bool zero = false;
    purge_all(0);
    void *block = new_block(mebibyte, 0, &zero);
    assert_true(zero && is_zero(block, mebibyte));
    memset(block, 1, mebibyte);
    large_release(span_of_block(block));
    void *again = new_block(mebibyte, 0, &zero);
    assert_true(is_at((uintptr_t)block, again));
    assert_false(zero);
    large_release(span_of_block(again));
    purge_all(0);
    again = new_block(mebibyte, 0, &zero);
    assert_true(zero && is_zero(again, mebibyte));
    large_release(span_of_block(again));
}

static void test_impossible(void **state) {
    (void)state;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - SLICE_SIZE, (size_t)PTRDIFF_MAX + 1,
                                   PTRDIFF_MAX, (size_t)1 << 48};
    size_t mapped = page_heap.mapped_slices;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        assert_null(new_block(sizes[i], 0, NULL));
    }
    assert_null(new_block(mebibyte, (size_t)1 << 63, NULL));
    assert_null(new_block(mebibyte, (size_t)1 << 47, NULL));
    assert_int_equal(page_heap.mapped_slices, mapped);
    struct span *span = take(mebibyte);
    fill_pattern((void *)span->address, mebibyte, 5);
    assert_false(large_resize(span, SIZE_MAX));
    assert_false(large_resize(span, (size_t)1 << 48));
    assert_null(large_move(span, SIZE_MAX));
    assert_int_equal(span_size(span), mebibyte);
    assert_int_equal(check_pattern((void *)span->address, mebibyte, 5), mebibyte);
    large_release(span);
}

static void test_resize_in_place(void **state) {
    (void)state;
    struct span *span = take(4 * mebibyte);
    void *block = (void *)span->address;
    fill_pattern(block, 4 * mebibyte, 6);
    assert_true(large_resize(span, 4 * mebibyte - SLICE_SIZE + 1));
    assert_int_equal(span_size(span), 4 * mebibyte);
    assert_true(large_resize(span, mebibyte));
    assert_int_equal(span_size(span), mebibyte);
    assert_int_equal(unit_slices_in_use() * SLICE_SIZE, mebibyte);
    assert_int_equal(check_pattern(block, mebibyte, 6), mebibyte);
    assert_true(large_resize(span, 3 * mebibyte)); /* into what was its own end */
    assert_int_equal(span_size(span), 3 * mebibyte);
    assert_ptr_equal(span_of_block(block), span);
    assert_int_equal(check_pattern(block, mebibyte, 6), mebibyte);
    assert_false(large_resize(span, MEDIUM_SIZE_MAX)); /* then a block of a slab will do */
    assert_int_equal(span_size(span), 3 * mebibyte);
    large_release(span);
    assert_int_equal(unit_slices_in_use(), 0);
}

static void test_no_growth_into_a_neighbour(void **state) {
    (void)state;
    struct span *whole = take(4 * mebibyte);
    uintptr_t address = whole->address;
    large_release(whole);
    struct span *first = take(2 * mebibyte);
    struct span *second = take(2 * mebibyte);
    assert_int_equal(first->address, address);
    assert_int_equal(second->address, span_end(first));
    assert_false(large_resize(first, 2 * mebibyte + 1));
    assert_int_equal(span_size(first), 2 * mebibyte);
    large_release(second);
    assert_true(large_resize(first, 2 * mebibyte + 1));
    large_release(first);
}

/* From below to above the size from which pages are moved instead of copied. */
static void test_move(void **state) {
    (void)state;
    for (size_t size = 300000; size < 20 * mebibyte; size *= 3) {
        struct span *span = take(size);
        void *old = (void *)span->address;
        fill_pattern(old, size, size);
        char *moved = large_move(span, 2 * size);
        assert_non_null(moved);
        assert_ptr_not_equal(moved, old);
        assert_int_equal(span_class_of(old), 0);
        assert_int_equal(span_class_of(moved), CLASS_LARGE);
        assert_true(span_size(span_of_block(moved)) >= 2 * size);
        assert_int_equal(check_pattern(moved, size, size), size);
        assert_int_equal(unit_slices_in_use(), span_of_block(moved)->slice_count);
        memset(moved, 3, 2 * size);
        bool zero = false;
        unsigned char *reused = new_block(size, 0, &zero);
        assert_non_null(reused);
        assert_true(!zero || is_zero(reused, size));
        large_release(span_of_block(reused));
        large_release(span_of_block(moved));
    }
    assert_int_equal(unit_slices_in_use(), 0);
}

/* What has pages keeps them: the block is copied there, and those that it leaves serve the next. */
static void test_move_to_pages(void **state) {
    (void)state;
    purge_all(0);
    struct span *span = take(mebibyte);
    struct span *room = take(4 * mebibyte);
    uintptr_t old = span->address;
    uintptr_t start = room->address;
    fill_pattern((void *)old, mebibyte, 1);
    memset((void *)start, 2, 4 * mebibyte);
    large_release(room);
    uint64_t moves = load_relaxed(&memory_counts.move_calls);
    char *moved = large_move(span, 2 * mebibyte);
    assert_true(is_at(start, moved));
    assert_int_equal(check_pattern(moved, mebibyte, 1), mebibyte);
    assert_int_equal(load_relaxed(&memory_counts.move_calls), moves);
    assert_int_equal(unit_resident((void *)old, mebibyte), mebibyte);
    large_release(span_of_block(moved));
}

/* A block of small pieces, each of which came from elsewhere, is copied: to move it would take some
 * system calls for each piece. */
static void test_no_move_of_pieces(void **state) {
    (void)state;
    if (is_emulated()) {
        skip(); /* there is hardly a move */
    }
    purge_all(0);
    struct span *from = take(mebibyte);
    struct span *span = take(mebibyte);
    fill_pattern((void *)from->address, mebibyte, 1);
    for (size_t at = 0; at < mebibyte; at += 2 * SLICE_SIZE) {
        mapping_move(from->address + at, span->address + at, 2 * SLICE_SIZE);
    }
    fill_pattern((void *)span->address, mebibyte, 2);
    uint64_t moves = load_relaxed(&memory_counts.move_calls);
    char *moved = large_move(span, 2 * mebibyte);
    assert_int_equal(check_pattern(moved, mebibyte, 2), mebibyte);
    assert_int_equal(load_relaxed(&memory_counts.move_calls), moves);
    large_release(from);
    large_release(span_of_block(moved));
}

/* Hardened: what a block leaves as it moves or becomes lesser is cleared as a freed one. */
static void test_what_is_left_is_cleared(void **state) {
    (void)state;
    uint64_t zero_max = options.zero_max;
    options.hardened = true;
    options.moves = false;
    options.zero_max = SIZE_MAX;
    struct span *span = take(mebibyte);
    const unsigned char *left = memset((void *)span->address, 1, mebibyte);
    unsigned char *block = large_move(span, 2 * mebibyte);
    assert_ptr_not_equal(block, left);
    assert_true(is_zero(left, mebibyte));
    memset(block, 1, 2 * mebibyte);
    assert_true(large_resize(span_of_block(block), mebibyte));
    assert_true(is_zero(block + mebibyte + SLICE_SIZE, mebibyte - SLICE_SIZE)); /* no guard there */
    large_release(span_of_block(block));
    large_trim();
    options.zero_max = zero_max;
    options.moves = true;
    options.hardened = false;
}

/* Hardened: a freed block's span, guard and all, is the next one's of about its size. What is kept
 * goes when another size needs room, or when asked for. */
static void test_kept_guards(void **state) {
    (void)state;
    if (memory_page_size() > SLICE_SIZE) {
        skip(); /* a page behind the block is not its own: no guards */
    }
    options.hardened = true;
    purge_all(0); /* against nothing, what is kept is much */
    struct span *span = take(3 * mebibyte);
    uintptr_t address = span->address;
    assert_true(span->has_guard);
    large_release(span);
    assert_int_equal(span_class_of((void *)address), 0);
    assert_int_equal(unit_slices_in_use(), 3 * mebibyte / SLICE_SIZE + 1);
    bool zero = true;
    void *again = new_block(3 * mebibyte - SLICE_SIZE, 0, &zero);
    assert_int_equal((uintptr_t)again, address);
    assert_false(zero);
    assert_true(span->has_guard);
    large_release(span);
    span = take(4 * mebibyte);
    assert_int_equal(unit_slices_in_use(), 4 * mebibyte / SLICE_SIZE + 1);
    large_release(span);
    large_trim();
    assert_int_equal(unit_slices_in_use(), 0);
    options.hardened = false;
}

/* What a block leaves as it becomes lesser goes as what is freed: at once above a threshold. */
static void test_what_is_left_is_trimmed(void **state) {
    (void)state;
    purge_all(0);
    options.purge = 1;
    options.trim_threshold = mebibyte;
    struct span *span = large_allocate(8 * mebibyte, mebibyte, NULL); /* of whole pages */
    assert_non_null(span);
    uintptr_t end = span_end(span);
    memset((void *)span->address, 1, 8 * mebibyte);
    assert_true(large_resize(span, mebibyte));
    assert_int_equal(unit_resident((void *)span_end(span), end - span_end(span)), 0);
    assert_int_equal(unit_resident((void *)span->address, mebibyte), mebibyte);
    options.trim_threshold = OPTION_AUTO;
    options.purge = 0;
    large_release(span);
}

/* ... and has the age of what is freed: a window that begins before it does not take it. */
static void test_what_is_left_is_young(void **state) {
    (void)state;
    purge_all(0);
    options.purge = 1;
    purge_open_window();
    struct span *span = take(32 * mebibyte);
    memset((void *)span->address, 1, 32 * mebibyte);
    bool has_young = false;
    purge_end_window(false, &has_young);
    assert_true(large_resize(span, mebibyte));
    assert_int_equal(purge_end_window(false, &has_young), 0);
    assert_true(has_young);
    purge_end_window(false, &has_young);
    options.purge = 0;
    large_release(span);
}

/* The room that a growing block finds behind it and gives back is not held. */
static void test_room_is_not_held(void **state) {
    (void)state;
    purge_all(0);
    store_relaxed(&limits.held_peak, 0);
    struct span *span = take(mebibyte);
    void *block = large_move(span, 64 * mebibyte);
    assert_non_null(block);
    size_t peak = load_relaxed(&limits.held_peak);
    limits_note_resident(page_heap_resident_bytes());
    assert_int_equal(peak, load_relaxed(&limits.held_peak));
    assert_true(peak >= 65 * mebibyte && peak < 72 * mebibyte);
    large_release(span_of_block(block));
    purge_all(0);
}

int main(void) {
    heap_ensure();
    options.purge = 0; /* only when these tests ask for it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_and_alignments),
        cmocka_unit_test(test_zero_of_bare_memory),
        cmocka_unit_test(test_zero),
        cmocka_unit_test(test_impossible),
        cmocka_unit_test(test_resize_in_place),
        cmocka_unit_test(test_no_growth_into_a_neighbour),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_move_to_pages),
        cmocka_unit_test(test_no_move_of_pieces),
        cmocka_unit_test(test_kept_guards),
        cmocka_unit_test(test_what_is_left_is_trimmed),
        cmocka_unit_test(test_what_is_left_is_young),
        cmocka_unit_test(test_room_is_not_held),
        cmocka_unit_test(test_what_is_left_is_cleared),
    };
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
