/* Random churn over private bins, thread after thread: Wolfram Gloger's t-test1, part of ptmalloc.
 *
 * <n-total> threads run, <n-parallel> at a time. Each has <bins> bins, half of them filled at the
 * start, and then goes on in rounds: it empties up to 29 random bins and refills up to 29 random
 * bins with sizes from 1 to <size-max>, mostly by malloc, sometimes by calloc, realloc or memalign,
 * until <n-allocs> actions are done; at its end it frees everything. Command line, default values,
 * the number of bins (8,000,000 / (size-max * n-parallel), at least 4; 0 asks for it) and the mix
 * of calls are those of the published program; the random numbers are our own. Where the program
 * checks its blocks only in its test levels, this one always marks first word and last byte.
 */
#include "bins.h"

#define ACTIONS_MOST 30

static struct argument arguments[] = {
    {"n-total", "threads in all", 10, 1, 1000000, NULL},
    {"n-parallel", "threads at the same time", 2, 1, THREADS_MOST, NULL},
    {"n-allocs", "allocations and frees of each thread", 10000, 0, UINT32_MAX, NULL},
    {"size-max", "largest block, bytes", 10000, 2, UINT32_MAX, NULL},
    {"bins", "bins of each thread, 0 = 8000000 / (size-max * n-parallel)", 0, 0, UINT32_MAX, NULL},
};

static uint64_t actions_each;
static uint64_t size_most;
static uint64_t bins_each;

static void churn(uint64_t number) {
    struct random_stream random = random_seeded(number ^ actions_each * size_most ^ bins_each);
    struct bin *bins = (struct bin *)table_new(bins_each, sizeof *bins);
    for (uint64_t b = 0; b < bins_each; b++) {
        if (random_below(&random, 2) == 0)
            bin_alloc(&bins[b], random_between(&random, 1, size_most), random_next(&random));
    }
    for (uint64_t done = 0; done <= actions_each;) {
        uint64_t frees = random_below(&random, ACTIONS_MOST);
        for (uint64_t i = 0; i < frees; i++) bin_free(&bins[random_below(&random, bins_each)]);
        uint64_t refills = random_below(&random, ACTIONS_MOST);
        for (uint64_t i = 0; i < refills; i++) {
            struct bin *bin = &bins[random_below(&random, bins_each)];
            bin_alloc(bin, random_between(&random, 1, size_most), random_next(&random) >> 32);
        }
        done += frees + refills;
    }
    for (uint64_t b = 0; b < bins_each; b++) bin_free(&bins[b]);
    free(bins);
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "ptmalloc's t-test1: random churn over private bins.", arguments,
                    sizeof arguments / sizeof *arguments);
    uint64_t parallel = arguments[1].value;
    actions_each = arguments[2].value;
    size_most = arguments[3].value;
    bins_each = arguments[4].value;
    if (bins_each == 0) bins_each = BINS_BUDGET_BYTES / (size_most * parallel);
    if (bins_each < 4) bins_each = 4;

    double started_s = time_now_s();
    thread_relay_run(arguments[0].value, parallel, churn);
    report_print(arguments[0].value * actions_each, started_s);
    return 0;
}
