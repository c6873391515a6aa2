/* A process that has used up the kernel's mappings (T19: vm.max_map_count): every call gives what
 * was asked for or NULL and ENOMEM, frees work, and all is well once mappings go away. */
#include "support/support.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/names.h"

enum { MIB = 1 << 20, BLOCKS = 400, THREADS = 4, COUNT_MAX = 1 << 21 };

static char *pages;
static size_t pages_size;
static bool is_full;

struct block {
    unsigned char *address;
    size_t size;
};

/* Gives every other page of a range another protection: each is a mapping of its own. */
static void use_up_mappings(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t count = 65530;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file) {
        CHECK(fscanf(file, "%zu", &count) == 1, "no number in max_map_count");
        fclose(file);
    }
    is_full = false;
    if (count > COUNT_MAX) {
        return; /* would take minutes */
    }
    pages_size = (count + 2) * page;
    pages = mmap(NULL, pages_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(pages != MAP_FAILED, "no address space");
    for (size_t i = 1; i < count && !is_full; i += 2) {
        is_full = mprotect(pages + i * page, page, PROT_READ) != 0;
    }
    if (is_full) { /* a page in the middle takes two mappings more, one at the end only one */
        mprotect(pages + pages_size - page, page, PROT_READ);
    }
}

static void give_mappings_back(void) {
    if (pages) {
        munmap(pages, pages_size);
        pages = NULL;
    }
}

static void expect_block_or_failure(struct block *block, void *address, size_t size) {
    CHECK(address || errno == ENOMEM, "%zu bytes: errno is %d", size, errno);
    *block = (struct block){address, address ? size : 0};
    fill_pattern(address, block->size, size);
}

static void check_and_free(struct block *block) {
    CHECK(check_pattern(block->address, block->size, block->size) == block->size,
          "a block of %zu bytes has changed", block->size);
    errno = 4711;
    free(block->address);
    CHECK(errno == 4711, "free changed errno");
    *block = (struct block){NULL, 0};
}

static void resize(struct block *block, size_t size) {
    size_t kept = size < block->size ? size : block->size;
    errno = 0;
    unsigned char *address = opaque(realloc(block->address, size));
    if (!address) {
        CHECK(errno == ENOMEM, "errno is %d", errno);
        return; /* the old block is as it was: its owner will check */
    }
    CHECK(check_pattern(address, kept, block->size) == kept, "realloc has changed the contents");
    fill_pattern(address, size, size);
    *block = (struct block){address, size};
}

/* Random calls of all kinds. Returns how many of them failed. */
static size_t walk(uint64_t seed, size_t steps, size_t largest) {
    struct random random = {seed};
    struct block blocks[BLOCKS] = {{NULL, 0}};
    size_t failures = 0;
    for (size_t i = 0; i < steps; i++) {
        struct block *block = &blocks[random_below(&random, BLOCKS)];
        size_t size = random_size(&random, largest) + 1;
        errno = 0;
        if (block->address && random_below(&random, 3) == 0) {
            resize(block, size);
        } else if (block->address) {
            check_and_free(block);
        } else if (random_below(&random, 8) == 0) {
            size_t alignment = (size_t)64 << random_below(&random, 16);
            expect_block_or_failure(block, opaque(memalign(alignment, size)), size);
            CHECK((uintptr_t)block->address % alignment == 0, "not aligned");
            failures += block->address == NULL;
        } else {
            bool is_zeroed = random_below(&random, 4) == 0;
            unsigned char *address = opaque(is_zeroed ? calloc(1, size) : malloc(size));
            CHECK(!address || !is_zeroed || (address[0] == 0 && address[size - 1] == 0),
                  "no zeros");
            expect_block_or_failure(block, address, size);
            failures += address == NULL;
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        check_and_free(&blocks[i]);
    }
    return failures;
}

static void test_t19_walk(void **state) {
    (void)state;
    use_up_mappings();
    if (!is_full) {
        skip();
    }
    for (uint64_t seed = 1; seed <= 4; seed++) {
        walk(seed, scaled(3000), 300000);
        walk(seed, scaled(300), 20 * MIB);
    }
    malloc_trim(0);
    walk(5, scaled(3000), 300000);
    give_mappings_back();
    assert_int_equal(walk(6, scaled(300), 20 * MIB), 0);
}

/* What was there before the mappings ran out stays usable to its last byte, and can be freed. */
static void test_blocks_from_before(void **state) {
    (void)state;
    static struct block blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = i % 4 == 0 ? i * 5000 + 1 : i * 40 + 1;
        expect_block_or_failure(&blocks[i], opaque(malloc(size)), size);
        assert_non_null(blocks[i].address);
    }
    use_up_mappings();
    if (!is_full) {
        skip();
    }
    for (size_t i = 0; i < BLOCKS; i += 3) {
        check_and_free(&blocks[i]);
    }
    for (size_t i = 1; i < BLOCKS; i += 3) { /* smaller is always possible, or stays as it is */
        resize(&blocks[i], blocks[i].size / 2 + 1);
        resize(&blocks[i], blocks[i].size * 3);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        check_and_free(&blocks[i]);
    }
    /* Free memory that the heap has mapped already serves without any new mapping. */
    void *small = opaque(malloc(100));
    void *large = opaque(malloc(MIB));
    assert_non_null(small);
    assert_non_null(large);
    free(small);
    free(large);
    give_mappings_back();
}

static sem_t begin;

static void *walk_in_thread(void *argument) {
    while (sem_wait(&begin) != 0) {}
    walk((uintptr_t)argument, scaled(3000), 300000);
    return NULL;
}

/* Threads that have not allocated yet get their caches when nothing can be mapped. */
static void test_threads(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    sem_init(&begin, 0, 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, walk_in_thread, (void *)(i + 1)), 0);
    }
    use_up_mappings();
    for (size_t i = 0; i < THREADS; i++) {
        sem_post(&begin);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    give_mappings_back();
}

static void test_fork(void **state) {
    (void)state;
    struct block block;
    expect_block_or_failure(&block, opaque(malloc(3 * MIB)), 3 * MIB);
    use_up_mappings();
    if (!is_full) {
        skip();
    }
    pid_t child = fork();
    if (child == 0) {
        walk(7, 1000, 300000);
        check_and_free(&block);
        give_mappings_back();
        _exit(walk(8, 300, 5 * MIB) == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_and_free(&block);
    give_mappings_back();
}

int main(void) {
    expect_allocator();
    watchdog_start(100, "api/test_map_count");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t19_walk),
        cmocka_unit_test(test_blocks_from_before),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests_name("no mappings left", tests, NULL, NULL);
}
