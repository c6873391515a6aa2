/* Drifting sizes: a program whose blocks are not tomorrow what they were today.
 *
 * Blocks come, random ones go as the live bytes ask for it, <operations> in all. drift: sizes go
 * slowly up from 16 bytes to <largest> and down again, <turns> times; a block's size is that of its
 * time, up to twice as much. jump: as many phases, each with a size range of its own, one after the
 * other, so that all memory that one phase has freed is of another's sizes.
 */
#include "workload.h"

enum { WAY_DRIFT, WAY_JUMP, SMALLEST = 16 };

static const char *const way_words[] = {"drift", "jump", NULL};

static struct argument arguments[] = {
    {"way", "slowly, or all at once", WAY_DRIFT, 0, 0, way_words},
    {"live", "KiB of live blocks", 16384, 64, 1 << 24, NULL},
    {"operations", "replacements", 2000000, 1, UINT64_MAX, NULL},
    {"turns", "times that sizes go up and down, or phases", 4, 1, 10000, NULL},
    {"largest", "largest size at the beginning of its range, bytes", 8192, 32, 1 << 20, NULL},
};

struct block {
    void *address;
    size_t bytes;
};

/* The least size of the time i: log-linear up and down, or one of five steps. */
static size_t size_at(uint64_t i) {
    static const unsigned steps[] = {0, 3, 1, 4, 2};
    double turns = (double)i * (double)arguments[3].value / (double)arguments[2].value;
    uint64_t turn = (uint64_t)turns;
    double height; /* 0 to 1 */
    if (arguments[0].value == WAY_JUMP) {
        height = steps[turn % 5] / 4.0;
    } else {
        double part = turns - (double)turn;
        height = part < 0.5 ? 2 * part : 2 - 2 * part;
    }
    double size = SMALLEST;
    double doublings = height * (63 - __builtin_clzll(arguments[4].value / SMALLEST));
    for (; doublings >= 1; doublings--) size *= 2;
    return (size_t)(size * (1 + doublings));
}

/* Drops blocks from the end until the live bytes have room for one more of the size. */
static uint64_t make_room(struct block *blocks, uint64_t count, size_t *live_bytes, size_t bytes) {
    while (count && *live_bytes + bytes > arguments[1].value << 10) {
        struct block *last = &blocks[--count];
        *live_bytes -= last->bytes;
        block_delete(last->address, last->bytes);
    }
    return count;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Sizes that change while the program runs.", arguments,
                    sizeof arguments / sizeof *arguments);
    struct random_stream random = random_seeded(1);
    uint64_t most = (arguments[1].value << 10) / SMALLEST;
    struct block *blocks = (struct block *)table_new(most, sizeof *blocks);
    uint64_t count = 0;
    size_t live_bytes = 0;
    double started_s = time_now_s();
    for (uint64_t i = 0; i < arguments[2].value; i++) {
        size_t least = size_at(i);
        size_t bytes = random_between(&random, least, 2 * least);
        /* A random block makes place, its place goes to the last one; then the new one is last. */
        if (count && random_below(&random, 2)) {
            struct block *chosen = &blocks[random_below(&random, count)];
            live_bytes -= chosen->bytes;
            block_delete(chosen->address, chosen->bytes);
            *chosen = blocks[--count];
        }
        count = make_room(blocks, count, &live_bytes, bytes);
        blocks[count++] = (struct block){block_new(bytes), bytes};
        live_bytes += bytes;
        uint64_t other = random_below(&random, count);
        struct block last = blocks[count - 1];
        blocks[count - 1] = blocks[other];
        blocks[other] = last;
    }
    for (uint64_t b = 0; b < count; b++) block_delete(blocks[b].address, blocks[b].bytes);
    report_print(arguments[2].value, started_s);
    free(blocks);
    return 0;
}
