/* Random churn: the plainest model of a long-running program.
 *
 * Each thread keeps <live> blocks of <smallest> to <largest> bytes, uniformly distributed, and
 * replaces a random one <operations> times. With few live blocks everything stays in the CPU's
 * caches; with many, each free and each reuse meets a cold line, and what counts is how many cold
 * lines the allocator itself touches and how tightly it packs. With <aligned> so many of a hundred
 * blocks are aligned to a power of two from 32 to 4,096 bytes.
 */
#include "workload.h"

static struct argument arguments[] = {
    {"live", "live blocks of each thread", 50000, 1, 100000000, NULL},
    {"operations", "replacements of each thread", 1000000, 0, UINT64_MAX, NULL},
    {"smallest", "smallest block, bytes", 8, 1, 1 << 30, NULL},
    {"largest", "largest block, bytes", 1000, 1, 1 << 30, NULL},
    {"threads", "threads side by side", 1, 1, THREADS_MOST, NULL},
    {"seed", "seed of the random numbers", 1, 0, UINT32_MAX, NULL},
    {"aligned", "of a hundred blocks, how many are aligned", 0, 0, 100, NULL},
};

struct block {
    void *address;
    size_t bytes;
};

static void *aligned_new(size_t alignment, size_t bytes) {
    void *block = NULL;
    if (posix_memalign(&block, alignment, bytes) != 0 || (uintptr_t)block % alignment)
        workload_fail("no block of %zu bytes aligned to %zu", bytes, alignment);
    block_write(block, bytes);
    return block;
}

static struct block block_random(struct random_stream *random) {
    size_t bytes = random_between(random, arguments[2].value, arguments[3].value);
    if (arguments[6].value && random_below(random, 100) < arguments[6].value)
        return (struct block){aligned_new((size_t)32 << random_below(random, 8), bytes), bytes};
    return (struct block){block_new(bytes), bytes};
}

static void *churn(void *context) {
    struct random_stream random = random_seeded(*(uint64_t *)context);
    uint64_t live = arguments[0].value;
    struct block *blocks = (struct block *)table_new(live, sizeof *blocks);
    for (uint64_t b = 0; b < live; b++) blocks[b] = block_random(&random);
    for (uint64_t i = 0; i < arguments[1].value; i++) {
        struct block *block = &blocks[random_below(&random, live)];
        block_delete(block->address, block->bytes);
        *block = block_random(&random);
    }
    for (uint64_t b = 0; b < live; b++) block_delete(blocks[b].address, blocks[b].bytes);
    free(blocks);
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Random replacement among a number of live blocks.", arguments,
                    sizeof arguments / sizeof *arguments);
    if (arguments[2].value > arguments[3].value) workload_misuse("smallest is above largest");
    static uint64_t seeds[THREADS_MOST];
    for (uint64_t t = 0; t < arguments[4].value; t++) seeds[t] = arguments[5].value + t;

    double started_s = time_now_s();
    threads_run(arguments[4].value, churn, seeds, sizeof *seeds);
    report_print(arguments[4].value * (arguments[0].value + arguments[1].value), started_s);
    return 0;
}
