/* Random churn over bins that all threads share: Wolfram Gloger's t-test2, part of ptmalloc.
 *
 * As t-test1, but there is one pool of bins for all threads, in groups of 20 under a lock each.
 * A thread takes a random group and, in one of five cases, empties its bins, otherwise refills all
 * of them; so most blocks are freed by another thread than the one that allocated them. The random
 * numbers are drawn outside the lock. Command line, defaults, the number of bins (8,000,000 /
 * size-max, at least 20; 0 asks for it), the group of 20 and the odds of 200 in 1,024 are those of
 * the published program; the random numbers are our own.
 */
#include "bins.h"

#define BINS_PER_GROUP 20

struct group {
    pthread_mutex_t lock;
    struct bin bins[BINS_PER_GROUP];
};

static struct argument arguments[] = {
    {"n-total", "threads in all", 10, 1, 1000000, NULL},
    {"n-parallel", "threads at the same time", 2, 1, THREADS_MOST, NULL},
    {"n-allocs", "allocations and frees of each thread", 10000, 0, UINT32_MAX, NULL},
    {"size-max", "largest block, bytes", 10000, 2, UINT32_MAX, NULL},
    {"bins", "bins in all, 0 = 8000000 / size-max", 0, 0, UINT32_MAX, NULL},
};

static uint64_t actions_each;
static uint64_t size_most;
static uint64_t group_count;
static struct group *groups;

static void group_refill(struct group *group, struct random_stream *random) {
    size_t sizes[BINS_PER_GROUP];
    uint64_t dice[BINS_PER_GROUP];
    for (int b = 0; b < BINS_PER_GROUP; b++) {
        sizes[b] = random_between(random, 1, size_most);
        dice[b] = random_next(random) >> 32;
    }
    pthread_mutex_lock(&group->lock);
    for (int b = 0; b < BINS_PER_GROUP; b++) bin_alloc(&group->bins[b], sizes[b], dice[b]);
    pthread_mutex_unlock(&group->lock);
}

static void group_empty(struct group *group) {
    pthread_mutex_lock(&group->lock);
    for (int b = 0; b < BINS_PER_GROUP; b++) bin_free(&group->bins[b]);
    pthread_mutex_unlock(&group->lock);
}

static void churn(uint64_t number) {
    struct random_stream random = random_seeded(number ^ actions_each * size_most ^ group_count);
    for (uint64_t done = 0; done <= actions_each; done += BINS_PER_GROUP) {
        struct group *group = &groups[random_below(&random, group_count)];
        if (random_below(&random, 1024) < 200)
            group_empty(group);
        else
            group_refill(group, &random);
    }
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "ptmalloc's t-test2: random churn over bins that threads share.",
                    arguments, sizeof arguments / sizeof *arguments);
    actions_each = arguments[2].value;
    size_most = arguments[3].value;
    uint64_t bins = arguments[4].value ? arguments[4].value : BINS_BUDGET_BYTES / size_most;
    group_count = bins < BINS_PER_GROUP ? 1 : bins / BINS_PER_GROUP;

    double started_s = time_now_s();
    groups = (struct group *)table_new(group_count, sizeof *groups);
    for (uint64_t g = 0; g < group_count; g++) pthread_mutex_init(&groups[g].lock, NULL);
    thread_relay_run(arguments[0].value, arguments[1].value, churn);
    for (uint64_t g = 0; g < group_count; g++) group_empty(&groups[g]);
    free(groups);
    report_print(arguments[0].value * actions_each, started_s);
    return 0;
}
