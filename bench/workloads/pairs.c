/* The cost of a pair of malloc and free with next to nothing else alive.
 *
 * same: one size again and again; random: sizes from 1 to <size> bytes; fifo: the newest of 256
 * blocks of up to <size> bytes comes in and the oldest goes out. The blocks are marked, as any
 * program would write into them.
 */
#include "workload.h"

#define FIFO_BLOCKS 256
#define SIZES 4096 /* sizes are drawn in advance: the loop should time malloc, not random numbers */

enum { WAY_SAME, WAY_RANDOM, WAY_FIFO };

static const char *const way_words[] = {"same", "random", "fifo", NULL};

static struct argument arguments[] = {
    {"way", "what the loop does", WAY_SAME, 0, 0, way_words},
    {"pairs", "pairs of malloc and free", 10000000, 1, UINT64_MAX, NULL},
    {"size", "bytes of a block, or of the largest", 64, 1, 1 << 30, NULL},
};

static size_t sizes[SIZES];

static void pairs_run(uint64_t pairs) {
    for (uint64_t i = 0; i < pairs; i++) {
        size_t bytes = sizes[i % SIZES];
        block_delete(block_new(bytes), bytes);
    }
}

static void fifo_run(uint64_t pairs) {
    void *blocks[FIFO_BLOCKS] = {NULL};
    /* SIZES is a multiple of FIFO_BLOCKS, so the block at a place always is of the size drawn for
     * the turn FIFO_BLOCKS before. */
    for (uint64_t i = 0; i < pairs + FIFO_BLOCKS; i++) {
        void **place = &blocks[i % FIFO_BLOCKS];
        if (i >= FIFO_BLOCKS) block_delete(*place, sizes[(i - FIFO_BLOCKS) % SIZES]);
        if (i < pairs) *place = block_new(sizes[i % SIZES]);
    }
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Pairs of malloc and free with next to nothing else alive.",
                    arguments, sizeof arguments / sizeof *arguments);
    struct random_stream random = random_seeded(1);
    for (size_t i = 0; i < SIZES; i++) {
        int same = arguments[0].value == WAY_SAME;
        sizes[i] = same ? arguments[2].value : random_between(&random, 1, arguments[2].value);
    }
    double started_s = time_now_s();
    if (arguments[0].value == WAY_FIFO)
        fifo_run(arguments[1].value);
    else
        pairs_run(arguments[1].value);
    report_print(arguments[1].value, started_s);
    return 0;
}
