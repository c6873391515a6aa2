/* Generations of threads that hand objects over, in the manner of mimalloc's stress test (mstress).
 *
 * In each of <generations> rounds <threads> threads start, work and end. A thread allocates
 * objects, most of them small (a few pointers), few of them large, into an array of its own that
 * grows by realloc; frees some at random; and swaps some with a pool of 1,000 places that all
 * threads share, so that objects are freed by other threads and in later generations. At its end it
 * frees what it holds; every eighth generation empties the pool.
 */
#include <stdatomic.h>

#include "workload.h"

#define POOL_PLACES 1000

static struct argument arguments[] = {
    {"threads", "threads of a generation", 4, 1, THREADS_MOST, NULL},
    {"load", "objects of a thread, in thousands", 50, 1, 100000, NULL},
    {"generations", "generations one after the other", 20, 1, 100000, NULL},
};

static _Atomic(void *) pool[POOL_PLACES];

struct holder {
    void **objects;
    uint64_t count;
    uint64_t capacity;
};

struct member {
    uint64_t seed;
    uint64_t allocated;
};

/* 1 object in 1,000 has up to 32 KiB, 1 in 100 up to 4 KiB, the others up to 256 bytes. */
static void *object_new(struct random_stream *random) {
    uint64_t words = random_between(random, 2, 32);
    uint64_t dice = random_below(random, 1000);
    if (dice == 0)
        words *= 128;
    else if (dice < 11)
        words *= 16;
    return sized_new(words * sizeof(uint64_t));
}

static void holder_add(struct holder *holder, void *object) {
    if (holder->count == holder->capacity) {
        holder->capacity = holder->capacity ? 2 * holder->capacity : 16;
        size_t bytes = holder->capacity * sizeof(void *);
        holder->objects = (void **)block_found(realloc(holder->objects, bytes), bytes);
    }
    holder->objects[holder->count++] = object;
}

static void holder_drop(struct holder *holder, uint64_t place) {
    sized_delete(holder->objects[place]);
    holder->objects[place] = holder->objects[--holder->count];
}

static void holder_swap(struct holder *holder, uint64_t place, struct random_stream *random) {
    _Atomic(void *) *shared = &pool[random_below(random, POOL_PLACES)];
    void *received = atomic_exchange_explicit(shared, holder->objects[place], memory_order_acq_rel);
    if (received)
        holder->objects[place] = received;
    else
        holder->objects[place] = holder->objects[--holder->count];
}

static void *live(void *context) {
    struct member *member = (struct member *)context;
    struct random_stream random = random_seeded(member->seed);
    struct holder holder = {NULL, 0, 0};
    uint64_t wanted = arguments[1].value * 1000;
    while (member->allocated < wanted) {
        uint64_t dice = random_below(&random, 4);
        if (dice < 2 || holder.count == 0) {
            holder_add(&holder, object_new(&random));
            member->allocated++;
        } else if (dice == 2) {
            holder_drop(&holder, random_below(&random, holder.count));
        } else {
            holder_swap(&holder, random_below(&random, holder.count), &random);
        }
    }
    while (holder.count) holder_drop(&holder, holder.count - 1);
    free(holder.objects);
    return NULL;
}

static void pool_empty(void) {
    for (size_t p = 0; p < POOL_PLACES; p++) {
        void *object = atomic_exchange_explicit(&pool[p], NULL, memory_order_acq_rel);
        if (object) sized_delete(object);
    }
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Generations of threads that hand objects over.", arguments,
                    sizeof arguments / sizeof *arguments);
    static struct member members[THREADS_MOST];
    double started_s = time_now_s();
    uint64_t allocated = 0;
    for (uint64_t g = 0; g < arguments[2].value; g++) {
        for (uint64_t t = 0; t < arguments[0].value; t++)
            members[t] = (struct member){g * THREADS_MOST + t, 0};
        threads_run(arguments[0].value, live, members, sizeof *members);
        for (uint64_t t = 0; t < arguments[0].value; t++) allocated += members[t].allocated;
        if (g % 8 == 7) pool_empty();
    }
    pool_empty();
    report_print(allocated, started_s);
    return 0;
}
