/* Latency: how long single calls of malloc and free take, to the last of ten thousand.
 *
 * Each of <threads> threads keeps <live> objects of 16 bytes to <largest>, each power of two
 * equally likely, and replaces random ones; one in eight comes from another thread's objects. Each
 * malloc and each free is timed alone; what a call took, with the clock's own time, goes into a
 * table of the thread's, whose steps are 1/32 of a power of two.
 */
#include <stdatomic.h>

#include "figures.h"

enum { STEP_BITS = 5, STEPS = (64 - STEP_BITS + 1) << STEP_BITS, FOREIGN_ONE_IN = 8 };

static struct argument arguments[] = {
    {"threads", "threads side by side", 8, 1, THREADS_MOST, NULL},
    {"operations", "replacements of each thread", 500000, 1, UINT32_MAX, NULL},
    {"live", "objects of each thread", 1000, 1, 10000000, NULL},
    {"largest", "size of the largest objects as a power of two", 15, 5, 20, NULL},
};

enum call { CALL_MALLOC, CALL_FREE, CALLS };

struct times {
    uint32_t count[CALLS][STEPS];
    uint64_t longest_ns[CALLS];
};

struct worker {
    uint64_t number;
    struct times *times;
    _Atomic(void *) *objects;
};

static struct worker workers[THREADS_MOST];
static pthread_barrier_t barrier;

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static unsigned step_of(uint64_t ns) {
    if (ns < 1u << STEP_BITS) return (unsigned)ns;
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - STEP_BITS;
    return ((shift + 1) << STEP_BITS) + (unsigned)(ns >> shift & ((1u << STEP_BITS) - 1));
}

/* The middle of a step. */
static double ns_of(unsigned step) {
    if (step < 1u << STEP_BITS) return step;
    unsigned shift = (step >> STEP_BITS) - 1;
    uint64_t least = (uint64_t)((1u << STEP_BITS) + (step & ((1u << STEP_BITS) - 1))) << shift;
    return (double)least + (double)((uint64_t)1 << shift) / 2;
}

static void time_add(struct times *times, enum call call, uint64_t ns) {
    times->count[call][step_of(ns)]++;
    if (ns > times->longest_ns[call]) times->longest_ns[call] = ns;
}

static void *timed_new(struct times *times, size_t bytes) {
    uint64_t before = clock_ns();
    uint64_t *block = (uint64_t *)malloc(bytes);
    time_add(times, CALL_MALLOC, clock_ns() - before);
    block_found(block, bytes);
    block[0] = bytes;
    block[1] = block_mark(block, bytes);
    return block;
}

static void timed_delete(struct times *times, void *block) {
    uint64_t *words = (uint64_t *)block;
    if (words[1] != block_mark(block, words[0])) workload_fail("block %p lost its contents", block);
    uint64_t before = clock_ns();
    free(block);
    time_add(times, CALL_FREE, clock_ns() - before);
}

static void *work(void *context) {
    struct worker *worker = (struct worker *)context;
    struct random_stream random = random_seeded(worker->number);
    uint64_t live = arguments[2].value;
    unsigned most = (unsigned)arguments[3].value - 1;
    struct times warming = {0};
    for (uint64_t i = 0; i < live; i++)
        atomic_store(&worker->objects[i], timed_new(&warming, random_size_log(&random, 4, most)));
    pthread_barrier_wait(&barrier);
    for (uint64_t i = 0; i < arguments[1].value; i++) {
        uint64_t owner = random_below(&random, FOREIGN_ONE_IN)
                             ? worker->number
                             : random_below(&random, arguments[0].value);
        void *block = timed_new(worker->times, random_size_log(&random, 4, most));
        _Atomic(void *) *place = &workers[owner].objects[random_below(&random, live)];
        timed_delete(worker->times, atomic_exchange(place, block));
    }
    pthread_barrier_wait(&barrier);
    for (uint64_t i = 0; i < live; i++) timed_delete(&warming, worker->objects[i]);
    return NULL;
}

/* The time that so large a part of all calls did not exceed. */
static double percentile_ns(enum call call, double part) {
    uint64_t all = arguments[0].value * arguments[1].value;
    uint64_t seen = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        for (uint64_t t = 0; t < arguments[0].value; t++)
            seen += workers[t].times->count[call][step];
        if ((double)seen >= part * (double)all) return ns_of(step);
    }
    return ns_of(STEPS - 1);
}

static void call_print(enum call call, const char *name) {
    static const struct {
        const char *name;
        double part;
    } percentiles[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}};
    char label[64];
    for (unsigned p = 0; p < sizeof percentiles / sizeof *percentiles; p++) {
        snprintf(label, sizeof label, "%s_%s_ns", name, percentiles[p].name);
        figure_print(label, percentile_ns(call, percentiles[p].part));
    }
    uint64_t longest = 0;
    for (uint64_t t = 0; t < arguments[0].value; t++) {
        uint64_t own = workers[t].times->longest_ns[call];
        if (own > longest) longest = own;
    }
    snprintf(label, sizeof label, "%s_longest_ns", name);
    figure_print(label, (double)longest);
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "How long single calls of malloc and free take.", arguments,
                    sizeof arguments / sizeof *arguments);
    uint64_t threads = arguments[0].value;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (uint64_t t = 0; t < threads; t++) {
        workers[t].number = t;
        workers[t].times = (struct times *)pages_new(sizeof(struct times));
        workers[t].objects =
            (_Atomic(void *) *)pages_new(arguments[2].value * sizeof *workers[t].objects);
    }
    double started_s = time_now_s();
    threads_run(threads, work, workers, sizeof *workers);
    report_print(threads * arguments[1].value, started_s);
    call_print(CALL_MALLOC, "malloc");
    call_print(CALL_FREE, "free");
    return 0;
}
