/* First-class heaps and what stands beside them in primalloc.h, through the library's own names and
 * the standard ones together. */
#include "support/support.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "primalloc.h"
#include "support/names.h"

/* A preloaded library brings its names at run time only. */
#if !defined PRIM_TEST_PREFIXED && !defined PRIM_TEST_STATIC
#pragma weak prim_heap_new
#pragma weak prim_heap_new_in
#pragma weak prim_heap_delete
#pragma weak prim_heap_destroy
#pragma weak prim_heap_set_limit
#pragma weak prim_heap_malloc
#pragma weak prim_heap_calloc
#pragma weak prim_heap_realloc
#pragma weak prim_heap_strdup
#pragma weak prim_heap_strndup
#pragma weak prim_heap_aligned_alloc
#pragma weak prim_heap_malloc_aligned_at
#pragma weak prim_heap_of
#pragma weak prim_heap_contains
#pragma weak prim_heap_counts
#pragma weak prim_heap_visit_areas
#pragma weak prim_heap_visit_blocks
#pragma weak prim_malloc_aligned_at
#pragma weak prim_calloc_aligned_at
#pragma weak prim_rezalloc
#pragma weak prim_recalloc
#pragma weak prim_expand
#pragma weak prim_good_size
#endif

/* ThreadSanitizer knows no children of threads, and its own memory is as large as ours. */
#ifdef PRIM_TEST_TSAN
enum { IS_SANITIZED = 1, FORKS = 0 };
#else
enum { IS_SANITIZED = 0, FORKS = 10 };
#endif

static struct prim_heap_counts counts_of(prim_heap_t *heap) {
    struct prim_heap_counts counts;
    prim_heap_counts(heap, &counts);
    return counts;
}

static void check_zero(const unsigned char *block, size_t size) {
    for (size_t i = 0; i < size; i++) {
        CHECK(block[i] == 0, "byte %zu of %zu is %d", i, size, block[i]);
    }
}

static void test_every_way_to_get_a_block(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    assert_non_null(heap);
    for (size_t size = 0; size < 3000000; size = size * 3 / 2 + 1) {
        char *block = prim_heap_malloc(heap, size);
        assert_non_null(block);
        assert_ptr_equal(prim_heap_of(block), heap);
        assert_true(prim_heap_contains(heap, block));
        assert_true(malloc_usable_size(block) >= size);
        memset(block, 0xa5, malloc_usable_size(block));
        free(block);
        unsigned char *zeros = prim_heap_calloc(heap, size, 1);
        assert_non_null(zeros);
        check_zero(zeros, size);
        char *aligned = prim_heap_aligned_alloc(heap, 512, size);
        assert_int_equal((uintptr_t)aligned % 512, 0);
        memset(aligned, 1, size);
        assert_ptr_equal(prim_heap_of(aligned), heap);
    }
    char *text = prim_heap_strdup(heap, "heaps");
    assert_string_equal(text, "heaps");
    assert_string_equal(prim_heap_strndup(heap, text, 3), "hea");
    assert_string_equal(prim_heap_strndup(heap, text, 30), "heaps");
    errno = 0;
    assert_null(prim_heap_aligned_alloc(heap, 3, 8));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(prim_heap_calloc(heap, SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
    prim_heap_destroy(heap);
}

static void test_null_is_the_default_heap(void **state) {
    (void)state;
    char *block = prim_heap_malloc(NULL, 100);
    assert_null(prim_heap_of(block));
    block = prim_heap_realloc(NULL, block, 1000);
    assert_non_null(block);
    free(block);
    free(prim_heap_calloc(NULL, 3, 5));
    block = prim_heap_strdup(NULL, "x");
    assert_string_equal(block, "x");
    free(block);
    prim_heap_delete(NULL);
    prim_heap_destroy(NULL);
    prim_heap_set_limit(NULL, 1);
    int local;
    assert_null(prim_heap_of(&local));
    assert_null(prim_heap_of(NULL));
    prim_heap_t *heap = prim_heap_new();
    assert_false(prim_heap_contains(heap, NULL));
    assert_false(prim_heap_contains(heap, &local));
    prim_heap_destroy(heap);
}

static void test_reallocation(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    prim_heap_t *other = prim_heap_new();
    char *block = prim_heap_realloc(heap, NULL, 10);
    fill_pattern(block, 10, 1);
    for (size_t size = 10; size < 5000000; size = size * 2 + 1) {
        block = realloc(block, size * 2 + 1); /* stays where it belongs */
        assert_non_null(block);
        assert_int_equal(check_pattern(block, size, 1), size);
        assert_ptr_equal(prim_heap_of(block), heap);
        fill_pattern(block, size * 2 + 1, 1);
    }
    block = prim_heap_realloc(other, block, 5000);
    assert_ptr_equal(prim_heap_of(block), other);
    assert_int_equal(check_pattern(block, 5000, 1), 5000);
    assert_int_equal(counts_of(heap).blocks, 0);
    block = prim_heap_realloc(NULL, block, 4000);
    assert_null(prim_heap_of(block));
    assert_int_equal(check_pattern(block, 4000, 1), 4000);
    block = prim_heap_realloc(heap, block, 3000);
    assert_ptr_equal(prim_heap_of(block), heap);
    assert_int_equal(check_pattern(block, 3000, 1), 3000);
    assert_null(prim_heap_realloc(heap, block, 0));
    assert_int_equal(counts_of(heap).blocks, 0);
    prim_heap_destroy(heap);
    prim_heap_destroy(other);
}

static void test_counts_and_limit(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    prim_heap_set_limit(heap, 1 << 20);
    size_t bytes = 0;
    size_t count = 0;
    void *block;
    while ((block = prim_heap_malloc(heap, 5000)) != NULL) {
        bytes += malloc_usable_size(block);
        count++;
    }
    assert_int_equal(errno, ENOMEM);
    assert_true(bytes >= (1 << 20) - 6000 && bytes <= 1 << 20);
    struct prim_heap_counts counts = counts_of(heap);
    assert_int_equal(counts.bytes, bytes);
    assert_int_equal(counts.blocks, count);
    assert_int_equal(counts.peak_bytes, bytes);
    assert_int_equal(counts.limit, 1 << 20);
    assert_true(counts.area_bytes >= bytes);
    prim_heap_set_limit(heap, 0);
    block = prim_heap_malloc(heap, 900000);
    prim_heap_set_limit(heap, 1000); /* a block may still become smaller */
    assert_true(malloc_usable_size(prim_heap_realloc(heap, block, 300000)) < 900000);
    prim_heap_set_limit(heap, 0);
    assert_int_equal(counts_of(heap).limit, 0);
    assert_non_null(prim_heap_malloc(heap, 5000));
    assert_non_null(prim_heap_malloc(heap, 5000000));
    prim_heap_destroy(heap);
}

/* In chunks that grow, so that little is to be done for very many blocks. */
static void test_destroy_gives_everything_back(void **state) {
    (void)state;
    size_t rounds = scaled(20);
    size_t before = 0;
    for (size_t round = 0; round < rounds; round++) {
        prim_heap_t *heap = prim_heap_new();
        for (size_t i = 0; i < 50000; i++) {
            assert_non_null(prim_heap_malloc(heap, i % 100));
        }
        assert_non_null(prim_heap_malloc(heap, 10000000));
        prim_heap_destroy(heap);
        before = round == 1 ? mapped_bytes() : before;
    }
    /* Beside a hard limit free memory is clean or not as the clock goes, and so may be split. A
     * sanitizer maps some for itself. */
    assert_true(mapped_bytes() <= before + (4 << 20) || getenv("PRIMALLOC_HARD_LIMIT") ||
                IS_SANITIZED);
}

static void test_deleted_heap_leaves_its_blocks(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    enum { COUNT = 1000 };
    static char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = prim_heap_malloc(heap, i * 20);
        fill_pattern(blocks[i], i * 20, i);
    }
    prim_heap_delete(heap);
    for (size_t i = 0; i < COUNT; i++) {
        assert_null(prim_heap_of(blocks[i]));
        blocks[i] = realloc(blocks[i], i * 25);
        assert_true(i == 0 || blocks[i]);
        assert_int_equal(check_pattern(blocks[i], i * 20, i), i * 20);
        free(blocks[i]);
    }
}

struct seen {
    prim_heap_t *heap;
    size_t count;
    size_t bytes;
};

static bool see_block(const prim_heap_t *heap, void *block, size_t size, void *argument) {
    struct seen *seen = argument;
    CHECK(heap == seen->heap && prim_heap_contains(heap, block), "a block of another heap");
    seen->count++;
    seen->bytes += size;
    free(block);
    return seen->count < 150;
}

static bool see_area(const prim_heap_t *heap, const struct prim_heap_area *area, void *argument) {
    struct seen *seen = argument;
    CHECK(heap == seen->heap, "another heap");
    seen->count += area->blocks;
    seen->bytes += area->size;
    return true;
}

static void test_visitors(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    for (size_t i = 0; i < 200; i++) {
        assert_non_null(prim_heap_malloc(heap, i * 100));
    }
    struct prim_heap_counts counts = counts_of(heap);
    struct seen areas = {.heap = heap};
    assert_true(prim_heap_visit_areas(heap, see_area, &areas));
    assert_int_equal(areas.count, 200);
    assert_true(areas.bytes >= counts.bytes && areas.bytes <= counts.area_bytes);
    struct seen blocks = {.heap = heap};
    assert_false(prim_heap_visit_blocks(heap, see_block, &blocks));
    assert_int_equal(blocks.count, 150);
    assert_int_equal(counts_of(heap).blocks, 50);
    assert_int_equal(counts_of(heap).bytes, counts.bytes - blocks.bytes);
    blocks.count = 0;
    assert_true(prim_heap_visit_blocks(heap, see_block, &blocks));
    assert_int_equal(blocks.bytes, counts.bytes);
    prim_heap_destroy(heap);
}

/* An empty heap takes at most 1 KiB, one with ten small blocks hardly more. */
static void test_many_heaps(void **state) {
    (void)state;
    size_t count = getenv("PRIMALLOC_HARD_LIMIT") ? 10000 : 100000; /* else 200 MiB */
    prim_heap_t **heaps = malloc(count * sizeof *heaps);
    memset(heaps, 0, count * sizeof *heaps);
    size_t before = resident_bytes();
    for (size_t i = 0; i < count; i++) {
        heaps[i] = prim_heap_new();
        assert_non_null(heaps[i]);
    }
    size_t empty = resident_bytes() - before;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < 10; j++) {
            char *block = prim_heap_malloc(heaps[i], 16 + 8 * (j % 4));
            assert_non_null(block);
            *block = 1;
        }
    }
    size_t filled = resident_bytes() - before;
    printf("# a heap: %zu bytes empty, %zu with ten blocks\n", empty / count, filled / count);
    if (!is_reference_allocator() && !IS_SANITIZED) {
        assert_true(empty / count <= 1024);
        assert_true(filled / count <= 2048);
    }
    for (size_t i = 0; i < count; i++) {
        prim_heap_destroy(heaps[i]);
    }
    free(heaps);
}

static char buffer[1 << 20];

static void test_heap_in_own_memory(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new_in(buffer, sizeof buffer);
    assert_non_null(heap);
    char *block;
    size_t bytes = 0;
    while ((block = prim_heap_malloc(heap, 3000)) != NULL) {
        assert_true(block >= buffer && block + 3000 <= buffer + sizeof buffer);
        memset(block, 1, 3000);
        bytes += 3000;
    }
    assert_int_equal(errno, ENOMEM);
    assert_true(bytes > sizeof buffer * 4 / 5);
    errno = 0;
    assert_null(prim_heap_new_in(buffer, sizeof buffer));
    assert_int_equal(errno, EINVAL);
    prim_heap_destroy(heap);
    heap = prim_heap_new_in(buffer, sizeof buffer);
    assert_non_null(heap);
    block = prim_heap_malloc(heap, 200000);
    assert_non_null(block);
    assert_null(prim_heap_malloc(heap, 300000));
    block = realloc(block, 100);
    assert_ptr_equal(prim_heap_of(block), heap);
    free(block);
    prim_heap_destroy(heap);
    assert_null(prim_heap_new_in(buffer, 1000));
}

/* Nor of what lies deep in a large one. */
static void test_no_heap_in_a_block(void **state) {
    (void)state;
    enum { SIZE = 8 << 20, STEP = 1 << 20 };
    char *blocks[] = {malloc(SIZE), prim_heap_malloc_aligned_at(NULL, SIZE, 1 << 20, 300000)};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        assert_non_null(blocks[i]);
        for (size_t place = 0; place < SIZE; place += STEP) {
            errno = 0;
            assert_null(prim_heap_new_in(blocks[i] + place, SIZE - place));
            assert_int_equal(errno, EINVAL);
        }
        free(blocks[i]);
    }
}

static void test_aligned_at(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= 1 << 20; alignment *= 2) {
        for (size_t offset = 0; offset < 3 * alignment; offset = offset * 2 + 3) {
            for (size_t size = 0; size < 100000; size = size * 9 + 5) {
                unsigned char *block = prim_calloc_aligned_at(size, 1, alignment, offset);
                assert_non_null(block);
                assert_int_equal(((uintptr_t)block + offset) % alignment, 0);
                assert_null(prim_heap_of(block));
                assert_true(malloc_usable_size(block) >= size);
                check_zero(block, size);
                fill_pattern(block, size, offset);
                block = realloc(block, size + 100);
                assert_int_equal(check_pattern(block, size, offset), size);
                free(block);
            }
        }
    }
    errno = 0;
    assert_null(prim_malloc_aligned_at(10, 24, 1));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(prim_malloc_aligned_at(SIZE_MAX, 64, 1));
    assert_int_equal(errno, ENOMEM);
    assert_null(prim_calloc_aligned_at(SIZE_MAX, 2, 64, 1));
}

static void test_zeroing_realloc(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    for (int own = 0; own < 2; own++) {
        unsigned char *block = own ? prim_heap_malloc(heap, 5) : NULL;
        size_t size = 5;
        block = prim_rezalloc(block, own ? 0 : 5, size);
        check_zero(block, size);
        for (size_t next = 6; next < 2000000; next = next * 4 / 3) {
            fill_pattern(block, size, 9);
            memset(block + size, 0xff, malloc_usable_size(block) - size);
            block = prim_rezalloc(block, size, next);
            assert_non_null(block);
            assert_int_equal(check_pattern(block, size, 9), size);
            check_zero(block + size, next - size);
            size = next;
        }
        block = prim_recalloc(block, size, 10, 4);
        assert_int_equal(check_pattern(block, 40, 9), 40);
        assert_null(prim_recalloc(block, 40, SIZE_MAX, 2));
        free(block);
    }
    prim_heap_destroy(heap);
}

static void test_expand_and_good_size(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    assert_null(prim_expand(NULL, 1));
    for (size_t size = 1; size < 4000000; size = size * 2 + 1) {
        char *blocks[] = {malloc(size), prim_heap_malloc(heap, size)};
        assert_true(prim_good_size(size) >= size);
        for (size_t i = 0; i < 2; i++) {
            size_t usable = malloc_usable_size(blocks[i]);
            fill_pattern(blocks[i], size, size);
            assert_ptr_equal(prim_expand(blocks[i], usable), blocks[i]);
            size_t wanted = usable + usable / 4;
            void *expanded = prim_expand(blocks[i], wanted);
            assert_true(!expanded || expanded == blocks[i]);
            assert_true(malloc_usable_size(blocks[i]) >= (expanded ? wanted : usable));
            assert_int_equal(check_pattern(blocks[i], size, size), size);
            assert_null(prim_expand(blocks[i], SIZE_MAX));
            free(blocks[i]);
        }
    }
    assert_int_equal(counts_of(heap).bytes, 0);
    prim_heap_destroy(heap);
}

/* Threads share a heap and free what others took; another thread's fork finds it in order. (An
 * emulator's own threads do not survive one.) */
static prim_heap_t *shared;
static _Atomic(void *) exchange[32];

static void *churn(void *argument) {
    struct random random = {.state = (uintptr_t)argument};
    for (size_t i = 0; i < scaled(20000); i++) {
        size_t size = random_size(&random, 60000);
        char *block = prim_heap_malloc(shared, size);
        CHECK(block, "no %zu bytes", size);
        memset(block, 1, size < 100 ? size : 100);
        void *other = __atomic_exchange_n((void **)&exchange[random_below(&random, 32)], block,
                                          __ATOMIC_ACQ_REL);
        if (random_below(&random, 3) == 0) {
            other = realloc(other, size / 2 + 1);
        }
        free(other);
    }
    return NULL;
}

static void fork_once(void) {
    pid_t child = fork();
    CHECK(child >= 0, "cannot fork");
    if (child == 0) {
        watchdog_start(20, "child");
        for (size_t i = 0; i < 100; i++) {
            free(prim_heap_malloc(shared, i * 100));
        }
        prim_heap_destroy(shared);
        prim_heap_t *heap = prim_heap_new();
        CHECK(prim_heap_malloc(heap, 10), "no memory in the child");
        prim_heap_destroy(heap);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
}

static void test_threads_and_fork(void **state) {
    (void)state;
    shared = prim_heap_new();
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < FORKS && !is_emulated(); i++) {
        fork_once();
    }
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < 32; i++) {
        free(exchange[i]);
    }
    assert_int_equal(counts_of(shared).blocks, 0);
    prim_heap_destroy(shared);
}

int main(void) {
    expect_allocator();
    watchdog_start(100, "heaps");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_heaps),
        cmocka_unit_test(test_every_way_to_get_a_block),
        cmocka_unit_test(test_null_is_the_default_heap),
        cmocka_unit_test(test_reallocation),
        cmocka_unit_test(test_counts_and_limit),
        cmocka_unit_test(test_destroy_gives_everything_back),
        cmocka_unit_test(test_deleted_heap_leaves_its_blocks),
        cmocka_unit_test(test_visitors),
        cmocka_unit_test(test_heap_in_own_memory),
        cmocka_unit_test(test_no_heap_in_a_block),
        cmocka_unit_test(test_aligned_at),
        cmocka_unit_test(test_zeroing_realloc),
        cmocka_unit_test(test_expand_and_good_size),
        cmocka_unit_test(test_threads_and_fork),
    };
    int failures = cmocka_run_group_tests_name("heaps", tests, NULL, NULL);
    watchdog_stop();
    return failures;
}
