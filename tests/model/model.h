/* What the random walk knows about a block, and the operations it chooses from. */
#ifndef TESTS_MODEL_MODEL_H
#define TESTS_MODEL_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/support.h"

/* A live block. Its pattern is its tag's, over all of its usable bytes where those are few. */
struct block {
    unsigned char *start;
    size_t size;      /* as asked for */
    size_t usable;    /* malloc_usable_size when it was allocated */
    size_t alignment; /* as asked for, or the alignment that every block of the size has */
    uint64_t tag;
};

struct step {
    const char *name;
    const void *before;
    const void *after;
    size_t size;
    size_t alignment;
};

enum { HISTORY = 24, OWN_SLOTS = 512 };

/* One walker: a thread with its own blocks, its own random numbers and its last steps. */
struct walker {
    unsigned number;
    struct random random;
    uint64_t seed;
    uint64_t steps;
    uint64_t step;
    size_t largest;
    uint64_t next_tag;
    struct block slots[OWN_SLOTS];
    struct step history[HISTORY];
};

/* Does one random operation and checks everything it can. */
void walk_step(struct walker *walker);

/* Frees what the walker still holds, checking it. */
void walk_end(struct walker *walker);

/* Blocks given away by one walker and freed by another. Created before the walkers start. */
void exchange_create(void);
void exchange_drain(struct walker *walker);

#endif
