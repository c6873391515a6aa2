/* Random replacement in an array of blocks, small sizes most often: glibc's bench-malloc-thread.
 *
 * Each thread has an array of <slots> places. Each operation takes a random place, frees its block
 * and puts a block of a random size there. Of sizes from 4 to 32,768 bytes a size x is drawn with a
 * probability in proportion to 1/x^2, so that blocks of a few dozen bytes rule.
 */
#include "workload.h"

#define SIZE_LEAST 4
#define SIZE_MOST 32768

static struct argument arguments[] = {
    {"threads", "threads side by side", 1, 1, THREADS_MOST, NULL},
    {"operations", "replacements of each thread", 1000000, 1, UINT64_MAX, NULL},
    {"slots", "places of each thread's array", 1024, 1, 10000000, NULL},
};

struct block {
    void *address;
    size_t bytes;
};

/* The inverse of the distribution's integral: uniform u in (0, 1] becomes a size of 1/x^2. */
static size_t size_inverse_square(struct random_stream *random) {
    double u = (double)(random_next(random) >> 11) * 0x1p-53;
    double inverse = 1.0 / SIZE_LEAST - u * (1.0 / SIZE_LEAST - 1.0 / SIZE_MOST);
    return (size_t)(1.0 / inverse);
}

static void *replace(void *context) {
    struct random_stream random = random_seeded(*(uint64_t *)context);
    struct block *blocks = (struct block *)table_new(arguments[2].value, sizeof *blocks);
    for (uint64_t i = 0; i < arguments[1].value; i++) {
        struct block *block = &blocks[random_below(&random, arguments[2].value)];
        if (block->bytes) block_delete(block->address, block->bytes);
        block->bytes = size_inverse_square(&random);
        block->address = block_new(block->bytes);
    }
    for (uint64_t b = 0; b < arguments[2].value; b++) {
        if (blocks[b].bytes) block_delete(blocks[b].address, blocks[b].bytes);
    }
    free(blocks);
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Random replacement in arrays of mostly small blocks.", arguments,
                    sizeof arguments / sizeof *arguments);
    static uint64_t seeds[THREADS_MOST];
    for (uint64_t t = 0; t < arguments[0].value; t++) seeds[t] = t;
    double started_s = time_now_s();
    threads_run(arguments[0].value, replace, seeds, sizeof *seeds);
    report_print(arguments[0].value * arguments[1].value, started_s);
    return 0;
}
