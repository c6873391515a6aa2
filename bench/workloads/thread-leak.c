/* Threads that leave their blocks behind, in the manner of mimalloc-bench's mleak.
 *
 * In each of <rounds> rounds <threads> threads start, allocate <blocks> blocks of 16 bytes to 4 KiB
 * each and end without freeing any; the main thread frees the blocks of the round before last. So
 * all memory belongs to dead threads, and new threads should live on it.
 */
#include "workload.h"

#define ROUNDS_KEPT 2

static struct argument arguments[] = {
    {"threads", "threads of a round", 16, 1, THREADS_MOST, NULL},
    {"rounds", "rounds", 20, 1, 1000000, NULL},
    {"blocks", "blocks of each thread", 1000, 1, 10000000, NULL},
};

struct leaker {
    uint64_t seed;
    void **blocks;
};

static void *leak(void *context) {
    struct leaker *leaker = (struct leaker *)context;
    struct random_stream random = random_seeded(leaker->seed);
    leaker->blocks = (void **)table_new(arguments[2].value, sizeof(void *));
    for (uint64_t b = 0; b < arguments[2].value; b++)
        leaker->blocks[b] = sized_new(random_size_log(&random, 4, 11));
    return NULL;
}

static void leak_free(struct leaker *leaker) {
    if (!leaker->blocks) return;
    for (uint64_t b = 0; b < arguments[2].value; b++) sized_delete(leaker->blocks[b]);
    free(leaker->blocks);
    leaker->blocks = NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Threads end and leave their blocks to the main thread.", arguments,
                    sizeof arguments / sizeof *arguments);
    static struct leaker leakers[ROUNDS_KEPT][THREADS_MOST];
    uint64_t threads = arguments[0].value;
    double started_s = time_now_s();
    for (uint64_t round = 0; round < arguments[1].value + ROUNDS_KEPT; round++) {
        struct leaker *row = leakers[round % ROUNDS_KEPT];
        for (uint64_t t = 0; t < threads; t++) {
            leak_free(&row[t]);
            row[t].seed = round * THREADS_MOST + t;
        }
        if (round < arguments[1].value) threads_run(threads, leak, row, sizeof *row);
    }
    report_print(threads * arguments[1].value * arguments[2].value, started_s);
    return 0;
}
