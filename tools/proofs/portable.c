/* A workload that needs nothing but libc and checks itself: it runs where the test suite cannot be
 * brought, on an emulated processor, with other page sizes, with little address space. */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <primalloc.h>

enum { BLOCKS = 2000, ROUNDS = 40000, THREADS = 4, PICTURES = 12, PICTURE_ROUNDS = 300 };

struct block {
    unsigned char *bytes;
    size_t size;
};

static uint64_t random_next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void fail(const char *what) {
    fprintf(stderr, "portable: %s\n", what);
    exit(1);
}

static void check(const struct block *block) {
    unsigned char mark = (unsigned char)block->size;
    if (block->size > 0 && (block->bytes[0] != mark || block->bytes[block->size - 1] != mark)) {
        fail("a block does not hold what was written");
    }
}

/* Sizes are mostly small and sometimes large; alignments go up to 64 KiB. */
static struct block take(uint64_t *state) {
    uint64_t dice = random_next(state);
    size_t size = (size_t)(random_next(state) % (dice % 64 == 0 ? 1u << 20 : 2000)) + 1;
    size_t alignment = (size_t)1 << (4 + dice / 64 % 13);
    bool is_aligned = dice / 4096 % 16 == 0;
    struct block block = {is_aligned ? prim_aligned_alloc(alignment, size) : prim_malloc(size),
                          size};
    if (!block.bytes) fail("there is no memory");
    if (is_aligned && (uintptr_t)block.bytes % alignment != 0) fail("a block is not aligned");
    memset(block.bytes, (int)(unsigned char)size, size);
    return block;
}

static void change(struct block *block, uint64_t *state) {
    size_t size = (size_t)(random_next(state) % 5000) + 1;
    unsigned char first = block->bytes[0];
    block->bytes = prim_realloc(block->bytes, size);
    if (!block->bytes || block->bytes[0] != first) fail("realloc lost what a block held");
    block->size = size;
    memset(block->bytes, (int)(unsigned char)size, size);
}

static void *work(void *seed) {
    uint64_t state = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15u + 1;
    struct block *blocks = prim_calloc(BLOCKS, sizeof *blocks);
    for (int round = 0; round < ROUNDS; round++) {
        struct block *block = &blocks[random_next(&state) % BLOCKS];
        if (block->bytes && random_next(&state) % 4 == 0) {
            change(block, &state);
            continue;
        }
        if (block->bytes) check(block);
        prim_free(block->bytes);
        *block = take(&state);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].bytes) check(&blocks[i]);
        prim_free(blocks[i].bytes);
    }
    prim_free(blocks);
    return NULL;
}

/* Blocks of megabytes, whose pages move, are filled by the kernel. */
static void read_pictures(void) {
    int zeros = open("/dev/zero", O_RDONLY);
    unsigned char *pictures[PICTURES] = {0};
    uint64_t state = 1;
    for (int round = 0; round < PICTURE_ROUNDS; round++) {
        unsigned char **picture = &pictures[random_next(&state) % PICTURES];
        size_t size = (size_t)(random_next(&state) % (8u << 20)) + 1;
        prim_free(*picture);
        *picture = prim_malloc(size);
        if (!*picture) fail("there is no memory");
        memset(*picture, 1, size);
        if (read(zeros, *picture, size) != (ssize_t)size) fail("the kernel refuses a block");
    }
    for (int i = 0; i < PICTURES; i++) prim_free(pictures[i]);
    close(zeros);
}

int main(void) {
    read_pictures();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0) fail("no thread");
    }
    pid_t child = fork();
    if (child == 0) {
        work((void *)99);
        _exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) fail("the forked child failed");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("primalloc %s, %ld KiB pages: %d rounds in %d threads and a forked child\n",
           prim_version(), sysconf(_SC_PAGESIZE) / 1024, ROUNDS, THREADS);
    return 0;
}
