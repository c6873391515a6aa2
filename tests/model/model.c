/* A random walk over the whole API, compared step by step with a model of the heap: no two live
 * blocks overlap, every block keeps its content and its usable size, alignment and zeroing hold.
 *
 * Usage: model [--seed N] [--steps N] [--threads N] [--largest BYTES]
 * The seed is printed; with one thread, equal seeds walk the same way. */
#include "support/support.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "model/live_map.h"
#include "model/model.h"

enum { THREADS_MAX = 64 };

struct options {
    uint64_t seed;
    uint64_t steps;
    unsigned threads;
    size_t largest;
};

static uint64_t fresh_seed(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_nsec << 20 ^ (uint64_t)getpid()) % 1000000007;
}

static struct options parse(int count, char **arguments) {
    struct options options = {fresh_seed(), 200000, 1, (size_t)32 << 20};
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'},
        {"steps", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {"largest", required_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    int name;
    while ((name = getopt_long(count, arguments, "", names, NULL)) >= 0) {
        uint64_t value = optarg != NULL ? strtoull(optarg, NULL, 0) : 0;
        switch (name) {
        case 's':
            options.seed = value;
            break;
        case 'n':
            options.steps = value;
            break;
        case 't':
            options.threads = (unsigned)value;
            break;
        case 'l':
            options.largest = (size_t)value;
            break;
        default:
            exit(2);
        }
    }
    if (options.threads < 1 || options.threads > THREADS_MAX) {
        fprintf(stderr, "model: --threads must be from 1 to %d\n", THREADS_MAX);
        exit(2);
    }
    return options;
}

static void *walk(void *argument) {
    struct walker *walker = argument;
    while (walker->step < walker->steps) {
        walk_step(walker);
    }
    walk_end(walker);
    return NULL;
}

int main(int count, char **arguments) {
    expect_allocator();
    struct options options = parse(count, arguments);
    options.steps = scaled((size_t)options.steps);
    printf("model: --seed %llu --steps %llu --threads %u --largest %zu\n",
           (unsigned long long)options.seed, (unsigned long long)options.steps, options.threads,
           options.largest);
    fflush(stdout);
    watchdog_start((unsigned)(60 + options.steps * options.threads / 2000), "the random walk");
    live_map_create((THREADS_MAX + 2) * (size_t)1024);
    exchange_create();
    struct walker *walkers = mmap(NULL, sizeof *walkers * THREADS_MAX, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(walkers != MAP_FAILED, "no memory for the walkers");
    pthread_t threads[THREADS_MAX];
    for (unsigned i = 0; i < options.threads; i++) {
        walkers[i].number = i;
        walkers[i].seed = options.seed;
        walkers[i].random.state = options.seed * THREADS_MAX + i;
        walkers[i].steps = options.steps;
        walkers[i].largest = options.largest;
        walkers[i].next_tag = (uint64_t)(i + 1) << 40;
        if (options.threads > 1) {
            CHECK(pthread_create(&threads[i], NULL, walk, &walkers[i]) == 0, "no thread %u", i);
        }
    }
    if (options.threads == 1) {
        walk(&walkers[0]);
    }
    for (unsigned i = 0; options.threads > 1 && i < options.threads; i++) {
        pthread_join(threads[i], NULL);
    }
    exchange_drain(&walkers[0]);
    CHECK(live_map_count() == 0, "%zu blocks are left in the model", live_map_count());
    printf("model: %llu steps passed, 0 failed\n",
           (unsigned long long)options.steps * options.threads);
    return 0;
}
