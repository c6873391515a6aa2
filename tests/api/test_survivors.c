/* A large heap is freed at random down to scattered survivors: what stays resident after
 * malloc_trim is the pages that hold live bytes, however many slabs they are scattered over, and
 * nothing of a huge page that was only begun. The survivors keep their contents, and what was given
 * back can be had again. PRIM_TEST_SCALE=16
 * makes the heap 1 GiB. */
#include "support/support.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/names.h"

#define MIB ((size_t)1 << 20)

enum { SURVIVORS_PERCENT = 5 };

struct block {
    char *bytes;
    size_t size;
};

struct heap {
    struct block *blocks; /* in pages of their own */
    size_t count;
    size_t room;
    struct random random;
};

static size_t size_of(struct heap *heap, size_t size) {
    return size ? size : 16 + random_size(&heap->random, 32 * 1024);
}

static void check(const struct block *block) {
    uint64_t tag = (uintptr_t)block->bytes;
    CHECK(check_pattern(block->bytes, block->size, tag) == block->size,
          "a block of %zu bytes lost its contents", block->size);
}

/* Adds blocks of this size, 0: of many sizes, up to so many bytes. */
static void grow(struct heap *heap, size_t size, size_t total) {
    for (size_t bytes = 0; bytes < total && heap->count < heap->room;) {
        struct block *block = &heap->blocks[heap->count++];
        block->size = size_of(heap, size);
        block->bytes = malloc(block->size);
        CHECK(block->bytes != NULL, "no memory for %zu bytes", block->size);
        fill_pattern(block->bytes, block->size, (uintptr_t)block->bytes);
        bytes += block->size;
    }
}

/* Frees blocks in random order until so many are left. */
static void shrink(struct heap *heap, size_t left) {
    while (heap->count > left) {
        struct block *block = &heap->blocks[random_below(&heap->random, heap->count)];
        check(block);
        free(block->bytes);
        *block = heap->blocks[--heap->count];
    }
}

static int by_address(const void *a, const void *b) {
    const struct block *left = a;
    const struct block *right = b;
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

/* Bytes of the pages that the blocks lie in; sorts them, in place. */
static size_t live_page_bytes(struct heap *heap) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = 0;
    uintptr_t next = 0;
    qsort(heap->blocks, heap->count, sizeof heap->blocks[0], by_address);
    for (size_t i = 0; i < heap->count; i++) {
        uintptr_t first = (uintptr_t)heap->blocks[i].bytes / page;
        uintptr_t end = ((uintptr_t)heap->blocks[i].bytes + heap->blocks[i].size - 1) / page + 1;
        first = first < next ? next : first;
        pages += end > first ? end - first : 0;
        next = end > next ? end : next;
    }
    return pages * page;
}

static void survive(size_t size) {
    size_t total = scaled(64) * MIB;
    size_t room = total / (size ? size : 64) + 1;
    struct heap heap = {.room = room, .random = {size + 1}};
    heap.blocks = mmap(NULL, room * sizeof heap.blocks[0], PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(heap.blocks != MAP_FAILED, "no memory for the test");
    malloc_trim(0);
    size_t base = resident_bytes();
    grow(&heap, size, total);
    size_t count = heap.count;
    shrink(&heap, count * SURVIVORS_PERCENT / 100);
    size_t live = live_page_bytes(&heap);
    size_t before = resident_bytes() - base;
    malloc_trim(0);
    size_t after = resident_bytes() - base;
    printf("%5zu bytes: %zu blocks live in pages of %zu KiB; resident %zu KiB, after "
           "malloc_trim %zu KiB: %.3f\n",
           size, heap.count, live >> 10, before >> 10, after >> 10, (double)after / (double)live);
    fflush(stdout);
    if (after > live + live / 10 + MIB / 2) {
        malloc_stats(); /* says where it is */
    }
    CHECK(is_reference_allocator() || after <= live + live / 10 + MIB / 2,
          "%zu bytes resident for pages of %zu bytes", after, live);
    grow(&heap, size, total / 2);
    shrink(&heap, 0);
    munmap(heap.blocks, room * sizeof heap.blocks[0]);
}

static void test_equal_sizes(void **state) {
    (void)state;
    survive(64);
    survive(2048);
    survive(3000);
    survive(20 * 1024);
}

static void test_many_sizes(void **state) {
    (void)state;
    survive(0);
}

/* Grows until a block has brought a huge page, of which it is the only block. */
static void test_begun_huge_page(void **state) {
    (void)state;
    enum { SIZE = 2048, COUNT = 16384, FIRST = COUNT / 4 };
    static char *blocks[COUNT];
    size_t count = 0;
    malloc_trim(0);
    size_t base = resident_bytes();
    for (bool is_begun = false; count < COUNT && !is_begun; count++) {
        size_t before = count < FIRST ? 0 : resident_bytes();
        blocks[count] = malloc(SIZE);
        CHECK(blocks[count] != NULL, "no memory for %d bytes", SIZE);
        memset(blocks[count], 1, SIZE);
        is_begun = count >= FIRST && resident_bytes() >= before + MIB;
    }
    size_t full = resident_bytes() - base;
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    malloc_trim(0);
    size_t after = resident_bytes() - base;
    printf("%zu blocks, %zu KiB resident, after free and malloc_trim %zu KiB\n", count, full >> 10,
           after >> 10);
    CHECK(is_reference_allocator() || after < MIB, "%zu bytes resident without a block", after);
}

int main(void) {
    expect_allocator();
    watchdog_start(600, "survivors");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begun_huge_page),
        cmocka_unit_test(test_equal_sizes),
        cmocka_unit_test(test_many_sizes),
    };
    return cmocka_run_group_tests_name("survivors", tests, NULL, NULL);
}
