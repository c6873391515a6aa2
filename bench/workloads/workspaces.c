/* Workspaces: large blocks of a few sizes, of which the program writes to the beginning only.
 *
 * Each thread keeps <blocks>, of the ten sizes that brotli takes for a job of 300 KB, and replaces
 * random ones, <replacements> in all. Some are filled; others have room for inputs a hundred times
 * as large. An allocator that gives these the pages of the filled ones has them resident for
 * nothing, and one that gives every page back faults without end.
 */
#include "figures.h"

static struct argument arguments[] = {
    {"threads", "threads side by side", 2, 1, THREADS_MOST, NULL},
    {"blocks", "blocks that each thread keeps", 40, 1, 100000, NULL},
    {"replacements", "by each thread", 1500, 0, UINT32_MAX, NULL},
};

/* In KiB. */
static const struct {
    uint32_t size;
    uint32_t written;
} kinds[] = {
    {293, 293}, {512, 512},   {586, 586}, {1024, 880}, {1024, 1024},
    {3072, 0},  {4096, 4096}, {8192, 0},  {8448, 800}, {32768, 2048},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct block {
    unsigned char *bytes;
    unsigned kind;
    unsigned char mark;
};

static struct block block_taken(struct random_stream *random) {
    struct block block = {NULL, (unsigned)random_below(random, KINDS),
                          (unsigned char)random_next(random)};
    size_t size = (size_t)kinds[block.kind].size << 10;
    block.bytes = (unsigned char *)block_found(malloc(size), size);
    memset(block.bytes, block.mark, (size_t)kinds[block.kind].written << 10);
    return block;
}

static void block_given(const struct block *block) {
    size_t written = (size_t)kinds[block->kind].written << 10;
    if (written && (block->bytes[0] != block->mark || block->bytes[written - 1] != block->mark))
        workload_fail("block %p lost its contents", (void *)block->bytes);
    free(block->bytes);
}

static void *work(void *context) {
    struct random_stream random = random_seeded(*(uint64_t *)context);
    struct block *blocks = (struct block *)table_new(arguments[1].value, sizeof *blocks);
    for (uint64_t b = 0; b < arguments[1].value; b++) blocks[b] = block_taken(&random);
    for (uint64_t i = 0; i < arguments[2].value; i++) {
        struct block *block = &blocks[random_below(&random, arguments[1].value)];
        block_given(block);
        *block = block_taken(&random);
    }
    for (uint64_t b = 0; b < arguments[1].value; b++) block_given(&blocks[b]);
    free(blocks);
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Large blocks, written to in part.", arguments,
                    sizeof arguments / sizeof *arguments);
    static uint64_t numbers[THREADS_MOST];
    for (uint64_t t = 0; t < arguments[0].value; t++) numbers[t] = t;
    double started_s = time_now_s();
    threads_run(arguments[0].value, work, numbers, sizeof *numbers);
    report_print(arguments[0].value * (arguments[1].value + arguments[2].value), started_s);
    return 0;
}
