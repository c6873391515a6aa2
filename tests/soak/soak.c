/* Days of a program's life in minutes: cycles of random threads, sizes and forks, and after each
 * the proof that nothing is left and nothing has grown.
 *
 * Usage: soak --seed N --seconds N; preloaded, under whatever settings the environment has. */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "primalloc.h"
#include "support/support.h"
#include "support/names.h"

/* Ours, where the library is preloaded. */
extern __typeof__(prim_stats_get) prim_stats_get __attribute__((weak));
extern __typeof__(prim_heap_new) prim_heap_new __attribute__((weak));
extern __typeof__(prim_heap_malloc) prim_heap_malloc __attribute__((weak));
extern __typeof__(prim_heap_destroy) prim_heap_destroy __attribute__((weak));

enum { THREADS_MOST = 8, OWN = 200, SHARED = 256, WARM_CYCLES = 6, LIVE_SLACK = 256 };
/* Freed blocks that options.check keeps (docs/checks.md), with what it knows of each. */
enum { QUARANTINE_BYTES = 16 << 20, RECORD_BYTES_LEAST = 128, FILLING_SIZE = 64 << 10 };

struct block {
    unsigned char *start;
    size_t size;
    uint64_t tag;
};

static struct block shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_ullong steps_done;

struct worker {
    pthread_t thread;
    struct random random;
    size_t steps;
    size_t largest;
    bool forks;
};

static void stamp(struct block *block, struct random *random) {
    block->tag = random_next(random);
    fill_pattern(block->start, block->size < 4096 ? block->size : 4096, block->tag);
}

static void check(const struct block *block) {
    size_t length = block->size < 4096 ? block->size : 4096;
    size_t good = check_pattern(block->start, length, block->tag);
    CHECK(good == length, "block %p of %zu bytes changed at %zu", (void *)block->start, block->size,
          good);
}

static void discard(struct block *block) {
    if (!block->start) return;
    check(block);
    free(block->start);
    block->start = NULL;
}

static void *obtain(size_t size, struct random *random) {
    switch (random_below(random, 8)) {
    case 0:
        return calloc(1, size);
    case 1:
        return aligned_alloc((size_t)1 << (4 + random_below(random, 9)), size);
    default:
        return malloc(size);
    }
}

/* Memory may run out where a setting limits it. */
static void step(struct worker *worker, struct block *block) {
    struct random *random = &worker->random;
    size_t size = 1 + random_size(random, worker->largest);
    if (block->start && random_below(random, 4) == 0) {
        check(block);
        unsigned char *fresh = realloc(block->start, size);
        if (!fresh) return;
        struct block kept = {fresh, size < block->size ? size : block->size, block->tag};
        if (kept.size >= 16) {
            kept.size = 16;
            check(&kept);
        }
        *block = (struct block){fresh, size, 0};
        stamp(block, random);
        return;
    }
    if (block->start) {
        discard(block);
        return;
    }
    block->start = obtain(size, random);
    block->size = size;
    if (block->start) stamp(block, random);
}

static void exchange(struct worker *worker, struct block *block) {
    struct block *place = &shared[random_below(&worker->random, SHARED)];
    pthread_mutex_lock(&shared_lock);
    struct block taken = *place;
    *place = *block;
    *block = taken;
    pthread_mutex_unlock(&shared_lock);
}

static void use_heap(struct worker *worker) {
    prim_heap_t *heap = &prim_heap_new ? prim_heap_new() : NULL;
    if (!heap) return;
    for (int i = 0; i < 50; i++) {
        size_t size = 1 + random_size(&worker->random, 20000);
        unsigned char *start = prim_heap_malloc(heap, size);
        if (start) memset(start, i, size);
        if (start && i % 3 == 0) free(start);
    }
    prim_heap_destroy(heap);
}

static void walk(struct worker *worker, size_t steps);

static void fork_and_walk(struct worker *worker) {
    pid_t child = fork();
    if (child == 0) {
        watchdog_start(120, "a forked child");
        worker->forks = false;
        walk(worker, 500);
        _exit(0);
    }
    if (child < 0) return; /* the machine has no more */
    int status = 1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    CHECK(status == 0, "a forked child ended with status %x", (unsigned)status);
}

static void walk(struct worker *worker, size_t steps) {
    struct block own[OWN] = {{NULL, 0, 0}};
    for (size_t i = 0; i < steps; i++) {
        struct block *block = &own[random_below(&worker->random, OWN)];
        uint64_t dice = random_below(&worker->random, 4096);
        step(worker, block);
        if (dice % 8 == 0 && worker->forks) exchange(worker, block);
        if (dice == 1) use_heap(worker);
        if (dice == 2 && worker->forks) fork_and_walk(worker);
    }
    for (int i = 0; i < OWN; i++) discard(&own[i]);
    atomic_fetch_add(&steps_done, steps);
}

static void *live(void *argument) {
    struct worker *worker = argument;
    walk(worker, worker->steps);
    return NULL;
}

static void cycle(struct random *random) {
    struct worker workers[THREADS_MOST];
    size_t count = 1 + random_below(random, THREADS_MOST);
    size_t largest = (size_t)1 << (9 + random_below(random, 12));
    for (size_t i = 0; i < count; i++) {
        workers[i] = (struct worker){.random = {random_next(random)},
                                     .steps = 1000 + random_below(random, 20000),
                                     .largest = largest,
                                     .forks = true};
        int error = pthread_create(&workers[i].thread, NULL, live, &workers[i]);
        CHECK(error == 0, "no thread: %d", error);
    }
    for (size_t i = 0; i < count; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < SHARED; i++) discard(&shared[i]);
}

/* Frees so many blocks of one size that a quarantine holds no others afterwards: then its share of
 * the live blocks is the same each time, whatever the cycle freed. */
static void fill_quarantine(size_t size) {
    size_t count = QUARANTINE_BYTES / (size + RECORD_BYTES_LEAST) + 1;
    for (size_t i = 0; i < count; i++) free(malloc(size));
}

static uint64_t live_blocks(struct prim_stats *stats) {
    CHECK(&prim_stats_get, "primalloc is not preloaded");
    prim_stats_get(stats, sizeof *stats);
    return stats->live_blocks + stats->large_blocks;
}

/* What may be left after a cycle, once the first have shown how much a cycle needs. Descriptors and
 * the like are kept for the peak, which random cycles raise ever more rarely. */
static void look(uint64_t number) {
    static uint64_t live_at_first, resident_at_first, metadata_at_first;
    struct prim_stats stats;
    fill_quarantine(FILLING_SIZE);
    malloc_trim(0);
    uint64_t live_now = live_blocks(&stats);
    size_t resident = resident_bytes();
    if (number < WARM_CYCLES) {
        live_at_first = live_now;
        resident_at_first = resident > resident_at_first ? resident : resident_at_first;
        metadata_at_first = stats.metadata_resident_bytes;
        return;
    }
    CHECK(live_now <= live_at_first + LIVE_SLACK, "%llu blocks are left, %llu were at first",
          (unsigned long long)live_now, (unsigned long long)live_at_first);
    CHECK(resident <= 2 * resident_at_first + (16 << 20), "resident %zu bytes, %llu at first",
          resident, (unsigned long long)resident_at_first);
    CHECK(stats.metadata_resident_bytes <= 2 * metadata_at_first + (4 << 20),
          "resident metadata %llu bytes, %llu at first",
          (unsigned long long)stats.metadata_resident_bytes, (unsigned long long)metadata_at_first);
    if ((number & (number - 1)) == 0) {
        printf("cycle %llu: live %llu, resident %zu KiB, metadata %llu KiB, mapped %llu KiB\n",
               (unsigned long long)number, (unsigned long long)live_now, resident / 1024,
               (unsigned long long)stats.metadata_resident_bytes / 1024,
               (unsigned long long)stats.mapped_bytes / 1024);
    }
}

static uint64_t seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

int main(int count, char **arguments) {
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'},
        {"seconds", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0},
    };
    expect_allocator();
    uint64_t seed = 1, seconds = 10;
    int name;
    while ((name = getopt_long(count, arguments, "", names, NULL)) >= 0) {
        if (name == '?') return 2;
        *(name == 's' ? &seed : &seconds) = strtoull(optarg, NULL, 0);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    watchdog_start((unsigned)(seconds * 2 + 600), "the soak");
    struct random random = {seed};
    uint64_t cycles = 0;
    fill_quarantine(1); /* with as many as ever fit: no later cycle needs more records */
    for (uint64_t end = seconds_now() + seconds; seconds_now() < end; cycles++) {
        cycle(&random);
        look(cycles);
    }
    printf("soak: seed %llu, %llu cycles, %llu steps\n", (unsigned long long)seed,
           (unsigned long long)cycles, (unsigned long long)steps_done);
    return 0;
}
