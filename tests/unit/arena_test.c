#include "objects/arena.h"

#include <sys/mman.h>

#include "objects/complaint.h"
#include "os/memory.h"
#include "pages/purge.h"
#include "settings/options.h"
#include "unit/arena_check.h"

static void test_every_size(void **state) {
    (void)state;
    size_t slices = slices_settled();
    struct arena *arena = arena_create();
    enum { COUNT = 500 };
    static unsigned char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = i * i * i / 400; /* up to 310 KB */
        blocks[i] = take(arena, size);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % ARENA_GRANULE, 0);
        assert_true(usable_size(blocks[i]) >= size);
        assert_int_equal(span_class_of(blocks[i]), CLASS_ARENA);
        assert_ptr_equal(arena_of(blocks[i]), arena);
        fill_pattern(blocks[i], usable_size(blocks[i]), i);
    }
    check_arena(arena);
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = usable_size(blocks[i]);
        assert_int_equal(check_pattern(blocks[i], size, i), size);
        release(blocks[i]);
    }
    check_arena(arena);
    assert_int_equal(arena_counts(arena).live_bytes, 0);
    assert_non_null(arena->chunks);
    assert_null(arena->chunks->next); /* all went back but the one that is carved */
    arena_destroy(arena);
    assert_true(slices_settled() <= slices + 1); /* one of cells stays */
}

/* The first block of a fresh arena, of each size that fills its class and of one byte more. */
static void test_first_block_of_any_size(void **state) {
    (void)state;
    size_t slices = slices_settled();
    for (unsigned i = CLASS_OF_16; i <= CLASS_COUNT; i++) {
        for (size_t more = 0; more < 2; more++) {
            for (size_t alignment = 16; alignment <= ARENA_ALIGNMENT_MAX; alignment *= 4) {
                struct arena *arena = arena_create();
                struct arena_request request = {size_classes[i].size + more, alignment, 0};
                assert_non_null(arena_allocate_entering(arena, request, NULL));
                check_arena(arena);
                arena_destroy(arena);
            }
        }
    }
    assert_true(slices_settled() <= slices + 1);
}

/* Sixteen small arenas' memory is one slice. */
static void test_small_arenas_share_slices(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    static struct arena *arenas[COUNT];
    size_t before = slices_settled();
    for (size_t i = 0; i < COUNT; i++) {
        arenas[i] = arena_create();
        for (size_t j = 0; j < 10; j++) {
            assert_non_null(take(arenas[i], 8 + 8 * j));
        }
    }
    size_t slices = unit_slices_in_use() - before;
    assert_true(slices * SLICE_SIZE <= COUNT * (size_t)(1024 + 1024));
    for (size_t i = 0; i < COUNT; i++) {
        check_arena(arenas[i]);
        arena_destroy(arenas[i]);
    }
    assert_true(slices_settled() <= before + 1);
}

static void test_zero(void **state) {
    (void)state;
    bool is_zero = false;
    struct arena *arena = arena_create();
    unsigned char *large =
        arena_allocate_entering(arena, (struct arena_request){.size = 1 << 20}, &is_zero);
    assert_non_null(large);
    if (is_zero) {
        for (size_t i = 0; i < 1 << 20; i++) {
            assert_int_equal(large[i], 0);
        }
    }
    arena_destroy(arena);
}

/* Zeros that fresh pages have anyway are not written; what was somebody's block is cleared. Where
 * pages are larger than these blocks, each has something of an arena's own in it. */
static void test_zeroed_stays_untouched(void **state) {
    (void)state;
    enum { COUNT = 1000, SIZE = 12 << 10 };
    static unsigned char *blocks[COUNT];
    size_t page = memory_page_size();
    size_t resident = 0;
    purge_all(0);
    struct arena *arena = arena_create();
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            size_t alignment = i % 2 ? 64 : 0;
            blocks[i] = arena_allocate_zeroed(arena, (struct arena_request){SIZE, alignment, 0});
            void *first = (void *)bits_round_down((uintptr_t)blocks[i], page);
            resident += round ? 0 : unit_resident(first, SIZE);
        }
        for (unsigned i = 0; i < COUNT; i++) {
            for (size_t at = 0; round && at < SIZE; at++) {
                assert_int_equal(blocks[i][at], 0);
            }
            memset(blocks[i], 0x5a, SIZE);
            release(blocks[i]);
        }
        check_arena(arena);
    }
    CHECK(page > SIZE || resident < (size_t)COUNT * SIZE / 2, "%zu bytes are resident", resident);
    arena_destroy(arena);
}

static void test_alignment_and_offset(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const size_t offsets[] = {0, 1, 8, 16, 24, 100, 4096, 70001};
    for (size_t alignment = 1; alignment <= 1 << 18; alignment *= 2) {
        for (size_t i = 0; i < ARRAY_LENGTH(offsets); i++) {
            for (size_t size = 0; size < 40000; size = size * 5 + 7) {
                struct arena_request request = {size, alignment, offsets[i]};
                char *block = arena_allocate_entering(arena, request, NULL);
                assert_non_null(block);
                assert_int_equal(((uintptr_t)block + offsets[i]) % alignment, 0);
                assert_true(usable_size(block) >= size);
                assert_ptr_equal(arena_of(block), arena);
                memset(block, 0x5a, usable_size(block));
                if (size % 2) {
                    release(block);
                }
            }
        }
        check_arena(arena);
    }
    arena_destroy(arena);
}

static void test_impossible(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const size_t sizes[] = {SIZE_MAX, PTRDIFF_MAX, (size_t)1 << 47, SIZE_MAX - 4096};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        errno = 0;
        assert_null(take(arena, sizes[i]));
        assert_int_equal(errno, ENOMEM);
        struct arena_request request = {sizes[i], (size_t)1 << 62, 1};
        assert_null(arena_allocate_entering(arena, request, NULL));
    }
    check_arena(arena);
    arena_destroy(arena);
}

static void test_limit(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    arena_set_limit(arena, 100000);
    size_t count = 0;
    void *last = NULL;
    for (void *block; (block = take(arena, 1000)); count++) {
        last = block;
    }
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(count, 100000 / 1024);
    assert_null(take(arena, 1 << 20));
    release(last);
    assert_non_null(last = take(arena, 1000));
    assert_null(arena_reallocate(last, 50000)); /* and the old block is as it was */
    assert_ptr_equal(arena_of(last), arena);
    check_arena(arena);
    arena_set_limit(arena, SIZE_MAX);
    char *large = take(arena, 1 << 20);
    assert_non_null(large);
    arena_set_limit(arena, arena_counts(arena).live_bytes);
    assert_false(arena_expand(large, (1 << 20) + 1));
    check_arena(arena);
    arena_destroy(arena);
}

static void test_deleted_arena_ends_with_its_last_block(void **state) {
    (void)state;
    size_t before = slices_settled();
    struct arena *arena = arena_create();
    void *blocks[300];
    for (size_t i = 0; i < 300; i++) {
        blocks[i] = take(arena, i * 100);
    }
    arena_delete(arena);
    for (size_t i = 0; i < 300; i++) {
        assert_null(arena_of(blocks[i]));
        assert_true(usable_size(blocks[i]) >= i * 100);
        memset(blocks[i], 1, usable_size(blocks[i]));
        release(blocks[i]);
    }
    assert_true(slices_settled() <= before + 1);
    arena_delete(arena_create());
}

/* A wrong pointer changes nothing. */
static void test_wrong_pointers(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char *block = take(arena, 100);
    char *large = take(arena, 100000);
    release(block + 32);
    release(large + 64);
    assert_null(arena_of(block + 32));
    assert_null(arena_of(large + 16));
    assert_null(arena_of(&block));
    assert_null(arena_of(NULL));
    assert_int_equal(arena_counts(arena).live_count, 2);
    release(block);
    release(block);
    assert_int_equal(arena_counts(arena).live_count, 1);
    check_arena(arena);
    arena_destroy(arena);
}

static void test_lent_memory(void **state) {
    (void)state;
    size_t size = (size_t)5 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t slices = slices_settled();
    for (int round = 0; round < 3; round++) {
        struct arena *arena = arena_create_lent(memory + 100, size - 200);
        assert_non_null(arena);
        errno = 0;
        assert_null(arena_create_lent(memory, size)); /* in use */
        assert_int_equal(errno, EINVAL);
        size_t total = 0;
        struct random random = {.state = 7};
        for (;;) {
            size_t wanted = random_size(&random, 200000);
            char *block = take(arena, wanted);
            if (!block) {
                assert_int_equal(errno, ENOMEM);
                break;
            }
            assert_true(block >= memory && block + wanted <= memory + size);
            memset(block, 3, wanted);
            total += wanted;
            if (random_below(&random, 3) == 0) {
                release(block);
                total -= wanted;
            }
        }
        assert_true(total > size / 2);
        check_arena(arena);
        arena_destroy(arena);
        for (size_t at = SLICE_SIZE; at < size - SLICE_SIZE; at += SLICE_SIZE) {
            assert_int_equal(span_class_of(memory + at), 0);
            assert_int_equal(
                span_of_slice(bits_round_down((uintptr_t)memory + at, SLICE_SIZE))->head_offset, 0);
        }
    }
    assert_true(slices_settled() <= slices + 1);
    assert_null(arena_create_lent(memory, 100));
    assert_null(arena_create_lent(NULL, size));
    assert_null(arena_create_lent(memory, SIZE_MAX));
    void *own = allocate(1 << 20);
    assert_null(arena_create_lent(own, 1 << 20));
    release(own);
    munmap(memory, size);
}

struct seen {
    size_t count;
    size_t bytes;
    bool frees;
};

static bool see_block(void *block, size_t size, void *argument) {
    struct seen *seen = argument;
    assert_true(usable_size(block) == size);
    seen->count++;
    seen->bytes += size;
    if (seen->frees) {
        release(block);
    }
    return true;
}

static bool see_area(const struct arena_area *area, void *argument) {
    struct seen *seen = argument;
    seen->count += area->used_count;
    seen->bytes += area->size;
    return true;
}

static bool stop(void *block, size_t size, void *argument) {
    (void)block;
    (void)size;
    return --*(int *)argument > 0;
}

static void test_visitors(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < 2000; i++) {
        void *block = take(arena, i % 50 * 500);
        if (i % 3 == 0) {
            release(block);
        }
    }
    struct arena_counts counts = arena_counts(arena);
    struct seen seen = {0};
    assert_true(arena_visit_areas(arena, see_area, &seen));
    assert_int_equal(seen.count, counts.live_count);
    assert_true(seen.bytes >= counts.live_bytes && seen.bytes <= counts.area_bytes);
    seen = (struct seen){0};
    assert_true(arena_visit_blocks(arena, see_block, &seen));
    assert_int_equal(seen.count, counts.live_count);
    assert_int_equal(seen.bytes, counts.live_bytes);
    int left = 5;
    assert_false(arena_visit_blocks(arena, stop, &left));
    assert_int_equal(left, 0);
    seen = (struct seen){.frees = true};
    assert_true(arena_visit_blocks(arena, see_block, &seen));
    assert_int_equal(seen.count, counts.live_count);
    assert_int_equal(arena_counts(arena).live_count, 0);
    check_arena(arena);
    arena_destroy(arena);
}

static unsigned told;

static void listen(int error, const char *text, void *context) {
    told += error == ENOMEM && text && !context;
}

/* At the limit, too, a block may become lesser, which is no error. */
static void test_lesser_block_at_the_limit(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char *block = take(arena, 9000);
    fill_pattern(block, 9000, 1);
    arena_set_limit(arena, arena_counts(arena).live_bytes);
    complaint_set_function(listen, NULL);
    errno = ERRNO_MARK;
    assert_ptr_equal(reallocate(block, 100), block);
    assert_int_equal(errno, ERRNO_MARK);
    assert_int_equal(told, 0);
    assert_int_equal(check_pattern(block, 100, 1), 100);
    assert_null(reallocate(block, 20000));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(told, 1);
    complaint_set_function(NULL, NULL);
    arena_destroy(arena);
}

/* One that threads share is made once, and is no block; but not by a handler inside of us. */
static void test_shared(void **state) {
    (void)state;
    static _Atomic(struct arena *) place;
    thread_cache_nest();
    errno = 0;
    assert_null(arena_at(&place, ARENA_INTERNAL, "shared", false));
    assert_int_equal(errno, ENOMEM);
    thread_cache_leave();
    struct arena *arena = arena_at(&place, ARENA_INTERNAL, "shared", false);
    assert_non_null(arena);
    assert_int_equal(span_class_of(arena), 0);
    thread_cache_nest();
    assert_ptr_equal(arena_at(&place, ARENA_INTERNAL, "other", false), arena);
    thread_cache_leave();
    assert_string_equal(arena->name, "shared");
}

int main(void) {
    unit_touch_single_pages();
    options.thp = THP_NEVER; /* where it is refused: a huge page is resident as a whole */
    heap_ensure();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_first_block_of_any_size),
        cmocka_unit_test(test_small_arenas_share_slices),
        cmocka_unit_test(test_zero),
        cmocka_unit_test(test_zeroed_stays_untouched),
        cmocka_unit_test(test_alignment_and_offset),
        cmocka_unit_test(test_impossible),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_lesser_block_at_the_limit),
        cmocka_unit_test(test_deleted_arena_ends_with_its_last_block),
        cmocka_unit_test(test_wrong_pointers),
        cmocka_unit_test(test_lent_memory),
        cmocka_unit_test(test_visitors),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
