/* One buffer that comes and goes: malloc, touch every page, free, again and again.
 *
 * <turns> times a block of <kib> KiB is allocated, one byte of each of its pages is written, and it
 * is freed; between two turns the program sleeps for <pause> microseconds. The page faults and the
 * processor time of the turns after the second are counted by the kernel, for all threads of the
 * process: a block whose pages are kept costs none, one that goes back at every free a fault for
 * each page.
 */
#include "figures.h"

static struct argument arguments[] = {
    {"kib", "KiB of the block", 1024, 1, (uint64_t)1 << 32, NULL},
    {"turns", "counted turns, after the first two", 100, 1, UINT32_MAX, NULL},
    {"pause", "microseconds of sleep before each turn", 0, 0, 60000000, NULL},
};

enum { TURNS_UNCOUNTED = 2 };

static void turn(size_t bytes, unsigned char value) {
    if (arguments[2].value) pause_us(arguments[2].value);
    unsigned char *block = (unsigned char *)block_found(malloc(bytes), bytes);
    block_touch(block, bytes, value);
    if (block[bytes / 2 / PAGE_BYTES * PAGE_BYTES] != value)
        workload_fail("block %p of %zu bytes lost its middle", (void *)block, bytes);
    free(block);
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "malloc, touch every page, free, in turns.", arguments,
                    sizeof arguments / sizeof *arguments);
    size_t bytes = arguments[0].value * KIB;
    uint64_t turns = arguments[1].value;

    usage_now(); /* its own first call takes pages of libc and the kernel's clock */
    for (unsigned t = 0; t < TURNS_UNCOUNTED; t++) turn(bytes, (unsigned char)t);
    struct usage before = usage_now();
    for (uint64_t t = 0; t < turns; t++) turn(bytes, (unsigned char)t);
    struct usage after = usage_now();

    figure_print("faults_per_turn", (double)(after.faults - before.faults) / (double)turns);
    figure_print("cpu_us_per_turn", (after.cpu_s - before.cpu_s) * 1e6 / (double)turns);
    return 0;
}
