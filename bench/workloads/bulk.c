/* Bulk allocation and bulk free, in the manner of MicroQuill's SmartHeap tests (sh6bench,
 * sh8bench).
 *
 * Each thread fills an array with <blocks> blocks of 1 to <size-max> bytes, small ones more often,
 * then frees all of them in reverse order (lifo), in the order of allocation (fifo), every second
 * one forward and the rest backward (mixed), by their addresses (rising) or from the highest
 * address down (falling), <rounds> times. With pass=1 each round's blocks are freed by the next
 * thread instead, as sh8bench does; with same=1 all have <size-max> bytes, as buffers have.
 */
#include "workload.h"

enum { ORDER_LIFO, ORDER_FIFO, ORDER_MIXED, ORDER_RISING, ORDER_FALLING };

static const char *const order_words[] = {"lifo", "fifo", "mixed", "rising", "falling", NULL};

static struct argument arguments[] = {
    {"order", "order of the frees", ORDER_LIFO, 0, 0, order_words},
    {"threads", "threads side by side", 1, 1, THREADS_MOST, NULL},
    {"rounds", "rounds of each thread", 100, 1, UINT32_MAX, NULL},
    {"blocks", "blocks of a round", 50000, 1, 100000000, NULL},
    {"size-max", "largest block, bytes", 1000, 1, 1 << 30, NULL},
    {"pass", "1 = the next thread frees", 0, 0, 1, NULL},
    {"churned", "blocks replaced at random before each round's frees", 0, 0, 100000000, NULL},
    {"same", "1 = all blocks have size-max bytes", 0, 0, 1, NULL},
};

struct block {
    void *address;
    size_t bytes;
};

static struct block *arrays[THREADS_MOST];
static pthread_barrier_t barrier;

/* The product of two uniform numbers: half of the blocks are below a fifth of the largest. */
static struct block block_random(struct random_stream *random) {
    uint64_t most = arguments[4].value;
    uint64_t limit = random_between(random, 1, most);
    size_t bytes = arguments[7].value ? most : random_between(random, 1, limit);
    return (struct block){block_new(bytes), bytes};
}

static void block_drop(const struct block *block) {
    block_delete(block->address, block->bytes);
}

static void array_fill(struct block *blocks, struct random_stream *random) {
    for (uint64_t b = 0; b < arguments[3].value; b++) blocks[b] = block_random(random);
    for (uint64_t i = 0; i < arguments[6].value; i++) {
        struct block *block = &blocks[random_below(random, arguments[3].value)];
        block_drop(block);
        *block = block_random(random);
    }
}

/* By address, in four passes over eleven bits each, of addresses in units of 16 bytes: those of all
 * that a Linux process may have. */
static void sort_by_address(struct block *blocks, struct block *others, uint64_t count) {
    enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = 4 };
    for (unsigned pass = 0; pass < PASSES; pass++) {
        unsigned shift = 4 + pass * DIGIT_BITS;
        uint64_t starts[DIGITS] = {0};
        for (uint64_t b = 0; b < count; b++)
            starts[(uintptr_t)blocks[b].address >> shift & (DIGITS - 1)]++;
        for (uint64_t digit = 0, sum = 0; digit < DIGITS; digit++) {
            uint64_t own = starts[digit];
            starts[digit] = sum;
            sum += own;
        }
        for (uint64_t b = 0; b < count; b++)
            others[starts[(uintptr_t)blocks[b].address >> shift & (DIGITS - 1)]++] = blocks[b];
        struct block *sorted = others;
        others = blocks;
        blocks = sorted;
    }
}

static void array_free(struct block *blocks) {
    uint64_t count = arguments[3].value;
    if (arguments[0].value >= ORDER_RISING) sort_by_address(blocks, blocks + count, count);
    switch (arguments[0].value) {
    case ORDER_FALLING:
    case ORDER_LIFO:
        for (uint64_t b = count; b-- > 0;) block_drop(&blocks[b]);
        break;
    case ORDER_RISING:
    case ORDER_FIFO:
        for (uint64_t b = 0; b < count; b++) block_drop(&blocks[b]);
        break;
    default:
        for (uint64_t b = 0; b < count; b += 2) block_drop(&blocks[b]);
        for (uint64_t b = count; b-- > 0;) {
            if (b % 2) block_drop(&blocks[b]);
        }
    }
}

static void *work(void *context) {
    uint64_t self = *(uint64_t *)context;
    struct random_stream random = random_seeded(self);
    uint64_t freed = arguments[5].value ? (self + 1) % arguments[1].value : self;
    for (uint64_t round = 0; round < arguments[2].value; round++) {
        array_fill(arrays[self], &random);
        if (freed != self) pthread_barrier_wait(&barrier);
        array_free(arrays[freed]);
        if (freed != self) pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Bulk allocation, then bulk free in a given order.", arguments,
                    sizeof arguments / sizeof *arguments);
    static uint64_t numbers[THREADS_MOST];
    uint64_t threads = arguments[1].value;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (uint64_t t = 0; t < threads; t++) {
        numbers[t] = t;
        /* The second half is for sorting. */
        arrays[t] = (struct block *)table_new(2 * arguments[3].value, sizeof(struct block));
    }
    double started_s = time_now_s();
    threads_run(threads, work, numbers, sizeof *numbers);
    report_print(threads * arguments[2].value * arguments[3].value, started_s);
    for (uint64_t t = 0; t < threads; t++) free(arrays[t]);
    return 0;
}
