/* Large blocks of several sizes, of which a program fills some and leaves others untouched, and
 * free memory in pieces too small for the next block: what is resident stays near what the program
 * has written to. */
#include "support/support.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/names.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* What a compressor takes for a job, about. */
static const struct {
    size_t size;
    size_t written;
} kinds[] = {
    {300 * KIB, 300 * KIB}, {32 * MIB, MIB},    {9 * MIB, 512 * KIB}, {8 * MIB, 0},
    {3 * MIB, 0},           {4 * MIB, 4 * MIB}, {MIB, MIB},           {600 * KIB, 600 * KIB}};
enum { KINDS = sizeof kinds / sizeof *kinds, BLOCKS = 32 };

struct block {
    char *bytes;
    unsigned kind;
};

static void take(struct block *block, unsigned kind) {
    block->kind = kind;
    block->bytes = opaque(malloc(kinds[kind].size));
    CHECK(block->bytes != NULL, "no memory");
    memset(block->bytes, (int)kind + 1, kinds[kind].written);
}

static void give(const struct block *block) {
    size_t written = kinds[block->kind].written;
    CHECK(written == 0 || block->bytes[written - 1] == (char)(block->kind + 1),
          "a block of kind %u lost its contents", block->kind);
    free(block->bytes);
}

/* The blocks come and go, but there are always four of each kind, so that no more is ever written
 * to than at first. Nothing is idle for long, so that nothing goes back by the clock. */
static void test_untouched_blocks_stay_bare(void **state) {
    (void)state;
    struct block blocks[BLOCKS];
    struct random random = {1};
    malloc_trim(0);
    size_t base = resident_bytes();
    size_t written = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        take(&blocks[i], i % KINDS);
        written += kinds[i % KINDS].written;
    }
    for (size_t round = 0; round < scaled(300); round++) {
        struct block *one = &blocks[random_below(&random, BLOCKS)];
        struct block *other = &blocks[random_below(&random, BLOCKS)];
        struct block *third = &blocks[random_below(&random, BLOCKS)];
        if (one == other || one == third || other == third) {
            continue;
        }
        give(one);
        give(other);
        give(third);
        unsigned kind = one->kind;
        take(one, other->kind);
        take(other, third->kind);
        take(third, kind);
    }
    size_t resident = resident_bytes() - base;
    printf("%zu KiB written to, %zu KiB resident\n", written >> 10, resident >> 10);
    CHECK(is_reference_allocator() || resident < written + written / 2,
          "%zu KiB resident for %zu KiB", resident >> 10, written >> 10);
    for (unsigned i = 0; i < BLOCKS; i++) {
        give(&blocks[i]);
    }
}

/* Pieces of free memory, half of whose pages are there, are not worth moving: they go as a block
 * is made for which each is too small. */
static void test_pieces_make_room(void **state) {
    (void)state;
    enum { PIECES = 32, SIZE = 900 * 1024, WRITTEN = SIZE / 8 * 5 };
    char *pieces[PIECES];
    void *between[PIECES];
    size_t base = resident_bytes();
    for (unsigned i = 0; i < PIECES; i++) {
        pieces[i] = opaque(malloc(SIZE));
        between[i] = opaque(malloc(300000));
        CHECK(pieces[i] && between[i], "no memory");
        memset(pieces[i], 1, WRITTEN);
    }
    for (unsigned i = 0; i < PIECES; i++) {
        free(pieces[i]);
    }
    size_t before = resident_bytes() - base;
    size_t size = (size_t)PIECES * SIZE;
    char *block = opaque(malloc(size));
    CHECK(block != NULL, "no memory");
    memset(block, 2, size);
    size_t after = resident_bytes() - base;
    printf("%zu KiB free in pieces, %zu KiB with a block of %zu KiB\n", before >> 10, after >> 10,
           size >> 10);
    CHECK(is_reference_allocator() || after < size + 4 * MIB, "%zu KiB resident for %zu KiB",
          after >> 10, size >> 10);
    free(block);
    for (unsigned i = 0; i < PIECES; i++) {
        free(between[i]);
    }
}

int main(void) {
    expect_allocator();
    watchdog_start(120, "api/large_mixed");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_pieces_make_room), /* first: what is needed again ends it for a while */
        cmocka_unit_test(test_untouched_blocks_stay_bare),
    };
    return cmocka_run_group_tests_name("large blocks of several sizes", tests, NULL, NULL);
}
