/* Big blocks, in the manner of mimalloc-bench's malloc-large.
 *
 * <alive> blocks of <smallest> to <largest> MiB are alive; <operations> times a random one is
 * replaced, and of every new block each 4 KiB page is written. An allocator that gives each block
 * back to the system pays for all its pages again; one that keeps everything takes too much memory.
 */
#include "workload.h"

#define MIB ((size_t)1 << 20)
#define PAGE_BYTES 4096

static struct argument arguments[] = {
    {"alive", "live blocks", 20, 1, 100000, NULL},
    {"smallest", "smallest block, MiB", 1, 1, 4096, NULL},
    {"largest", "largest block, MiB", 32, 1, 4096, NULL},
    {"operations", "replacements", 200, 0, UINT32_MAX, NULL},
};

struct block {
    unsigned char *address;
    size_t bytes;
};

static struct block block_touched(struct random_stream *random) {
    size_t least = arguments[1].value * MIB;
    size_t bytes = random_between(random, least, arguments[2].value * MIB);
    unsigned char *address = (unsigned char *)block_found(malloc(bytes), bytes);
    for (size_t b = 0; b < bytes; b += PAGE_BYTES) address[b] = (unsigned char)(b / PAGE_BYTES);
    block_write(address, bytes);
    return (struct block){address, bytes};
}

static void block_drop(struct block block) {
    /* The page in the middle tells whether the block still is the block that was written. */
    size_t middle = block.bytes / 2 / PAGE_BYTES * PAGE_BYTES;
    if (block.address[middle] != (unsigned char)(middle / PAGE_BYTES))
        workload_fail("block %p of %zu bytes lost its middle", (void *)block.address, block.bytes);
    block_delete(block.address, block.bytes);
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Random replacement among big blocks, every page touched.",
                    arguments, sizeof arguments / sizeof *arguments);
    if (arguments[1].value > arguments[2].value) workload_misuse("smallest is above largest");
    struct random_stream random = random_seeded(1);
    uint64_t alive = arguments[0].value;
    struct block *blocks = (struct block *)table_new(alive, sizeof *blocks);

    double started_s = time_now_s();
    for (uint64_t b = 0; b < alive; b++) blocks[b] = block_touched(&random);
    for (uint64_t i = 0; i < arguments[3].value; i++) {
        struct block *block = &blocks[random_below(&random, alive)];
        block_drop(*block);
        *block = block_touched(&random);
    }
    for (uint64_t b = 0; b < alive; b++) block_drop(blocks[b]);
    report_print(alive + arguments[3].value, started_s);
    free(blocks);
    return 0;
}
