/* mallopt while other threads allocate and free: every setting changes under them all the time, and
 * blocks keep what was written, zeroed ones are zero, and nothing is lost or handed out twice. */
#include "support/support.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/names.h"

enum { THREADS = 4, BLOCKS = 64 };

static atomic_uint running;

struct block {
    unsigned char *bytes;
    size_t size;
};

static void check(const struct block *block, uint64_t tag) {
    size_t first = check_pattern(block->bytes, block->size, tag);
    CHECK(first == block->size, "a block of %zu bytes changed at %zu", block->size, first);
}

static void allocate(struct random *random, struct block *block, uint64_t tag) {
    block->size = random_size(random, 600000);
    if (random_below(random, 4) == 0) {
        block->bytes = opaque(calloc(1, block->size));
        CHECK(block->bytes != NULL, "no memory");
        for (size_t i = 0; i < block->size; i++) {
            CHECK(block->bytes[i] == 0, "calloc of %zu bytes: %02x at %zu", block->size,
                  block->bytes[i], i);
        }
    } else if (random_below(random, 4) == 0) {
        block->bytes = opaque(aligned_alloc(256, (block->size + 255) / 256 * 256));
    } else {
        block->bytes = opaque(malloc(block->size));
    }
    CHECK(block->bytes != NULL, "no memory");
    fill_pattern(block->bytes, block->size, tag);
}

static void resize(struct random *random, struct block *block, uint64_t tag) {
    size_t size = random_size(random, 600000) + 1;
    unsigned char *moved = opaque(realloc(block->bytes, size));
    CHECK(moved != NULL, "no memory");
    block->bytes = moved;
    block->size = size < block->size ? size : block->size;
    check(block, tag);
    block->size = size;
    fill_pattern(moved, size, tag);
}

static void *work(void *argument) {
    struct random random = {(uintptr_t)argument};
    struct block blocks[BLOCKS] = {{NULL, 0}};
    for (size_t turn = 0; turn < scaled(4000); turn++) {
        size_t index = random_below(&random, BLOCKS);
        uint64_t tag = (uintptr_t)argument * BLOCKS + index;
        if (!blocks[index].bytes) {
            allocate(&random, &blocks[index], tag);
        } else if (random_below(&random, 3) == 0) {
            resize(&random, &blocks[index], tag);
        } else {
            check(&blocks[index], tag);
            free(blocks[index].bytes);
            blocks[index].bytes = NULL;
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i].bytes);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void change_something(struct random *random) {
    static const int thresholds[] = {-1, 0, 1, 700, 5000, 50000, 262144, 1 << 20, 1 << 30};
    int value = thresholds[random_below(random, sizeof thresholds / sizeof thresholds[0])];
    switch (random_below(random, 6)) {
    case 0:
        mallopt(M_PERTURB, (int)random_below(random, 3) * 85);
        break;
    case 1:
        mallopt(M_MMAP_THRESHOLD, value);
        break;
    case 2:
        mallopt(M_MMAP_MAX, (int)random_below(random, 20));
        break;
    case 3:
        mallopt(M_TRIM_THRESHOLD, value);
        break;
    case 4:
        mallopt(M_TOP_PAD, (int)random_below(random, 4 << 20));
        break;
    default:
        mallopt(M_ARENA_MAX, 1 + (int)random_below(random, 8));
        break;
    }
}

static void test_settings_change_under_threads(void **state) {
    (void)state;
    struct random random = {7};
    pthread_t threads[THREADS];
    running = THREADS;
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)), 0);
    }
    while (atomic_load(&running)) {
        change_something(&random);
        free(opaque(malloc(random_size(&random, 100000))));
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(void) {
    expect_allocator();
    watchdog_start(300, "threads/tuning");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_change_under_threads),
    };
    return cmocka_run_group_tests_name("tuning", tests, NULL, NULL);
}
