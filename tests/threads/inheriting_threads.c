/* Threads inherit what ended ones allocated, on two processors: each chain of threads replaces the
 * blocks of its own table, and each thread of a chain goes on where the one before ended. Where
 * blocks of both chains lay in one cache line, each write would take the line from the other
 * processor. */
#include "support/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/names.h"

enum {
    CHAINS = 2,
    BLOCKS = 5000,
    REPLACED = 25 * BLOCKS, /* by each thread */
    THREADS = 60,           /* of each chain */
    LARGEST = 500,
    LINE = 64,
    SHARED_MOST = 800, /* some 400; 1,450 if blocks come from one place for all */
};

struct chain {
    struct random random;
    int processor;
    pthread_barrier_t *start;
    char *blocks[BLOCKS];
    size_t sizes[BLOCKS];
};

static struct chain chains[CHAINS];

static void replace(struct chain *chain, size_t place) {
    free(chain->blocks[place]);
    chain->sizes[place] = random_size(&chain->random, LARGEST);
    chain->blocks[place] = opaque(malloc(chain->sizes[place]));
    CHECK(chain->blocks[place] != NULL, "no memory");
    *(volatile char *)chain->blocks[place] = 1;
}

/* Pinned before its first allocation, as programs' workers are. */
static void *run_thread(void *argument) {
    struct chain *chain = argument;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)chain->processor, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "cannot be pinned");
    pthread_barrier_wait(chain->start);
    for (size_t i = 0; i < REPLACED; i++) {
        replace(chain, random_below(&chain->random, BLOCKS));
    }
    return NULL;
}

/* Finds processors that get their blocks from different places, if there are any. */
static bool find_processors(void) {
    cpu_set_t allowed;
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "no affinity");
    int count = CPU_COUNT(&allowed);
    size_t found = 0;
    for (int processor = 0; processor < CPU_SETSIZE && found < CHAINS; processor++) {
        if (CPU_ISSET((size_t)processor, &allowed) &&
            (found == 0 || (processor - chains[0].processor) % count != 0)) {
            chains[found++].processor = processor;
        }
    }
    return found == CHAINS;
}

struct part {
    uintptr_t line;
    size_t chain;
};

static int compare(const void *a, const void *b) {
    const struct part *left = a;
    const struct part *right = b;
    return (left->line > right->line) - (left->line < right->line);
}

/* The lines in which blocks of several chains lie. */
static size_t count_shared(void) {
    enum { PARTS = CHAINS * BLOCKS * (LARGEST / LINE + 2) };
    static struct part parts[PARTS];
    size_t count = 0;
    for (size_t c = 0; c < CHAINS; c++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            uintptr_t first = (uintptr_t)chains[c].blocks[i];
            for (uintptr_t line = first / LINE; line <= (first + chains[c].sizes[i] - 1) / LINE;
                 line++) {
                parts[count++] = (struct part){line, c};
            }
        }
    }
    qsort(parts, count, sizeof *parts, compare);
    size_t shared = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        bool is_shared = false;
        for (end = begin + 1; end < count && parts[end].line == parts[begin].line; end++) {
            is_shared = is_shared || parts[end].chain != parts[begin].chain;
        }
        shared += is_shared;
    }
    return shared;
}

static void test_chains_share_few_lines(void **state) {
    (void)state;
    if (!find_processors()) {
        skip();
    }
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, CHAINS);
    for (size_t c = 0; c < CHAINS; c++) {
        chains[c].random = (struct random){c + 1};
        chains[c].start = &barrier;
        for (size_t i = 0; i < BLOCKS; i++) {
            replace(&chains[c], i);
        }
    }
    for (size_t generation = 0; generation < THREADS; generation++) {
        pthread_t threads[CHAINS];
        for (size_t c = 0; c < CHAINS; c++) {
            CHECK(pthread_create(&threads[c], NULL, run_thread, &chains[c]) == 0, "no thread");
        }
        for (size_t c = 0; c < CHAINS; c++) {
            pthread_join(threads[c], NULL);
        }
    }
    size_t shared = count_shared();
    CHECK(shared <= SHARED_MOST, "%zu lines hold blocks of both chains", shared);
    for (size_t c = 0; c < CHAINS; c++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            free(chains[c].blocks[i]);
        }
    }
}

int main(void) {
    expect_allocator();
    watchdog_start(120, "threads/inheriting_threads");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains_share_few_lines)};
    return cmocka_run_group_tests_name("inheriting threads", tests, NULL, NULL);
}
