/* Mixed sizes across threads, in the manner of rpmalloc's benchmark (rptest).
 *
 * Each thread keeps <live> blocks of 16 bytes to 16 KiB, every power of two equally likely, and
 * goes on in <rounds>: it frees a tenth of them and allocates as many anew, at places that walk
 * through the array in strides. Every <cross>th round it gives the freed tenth to its neighbour
 * instead, who frees them when its next round starts, unless a few such gifts wait there already:
 * so a part of the frees is remote, and memory does not depend on who happens to run.
 */
#include <stdatomic.h>

#include "workload.h"

#define STRIDE 7919 /* a prime: the places of a round do not repeat */
#define GIFTS_MOST 8

static struct argument arguments[] = {
    {"threads", "threads side by side", 2, 1, THREADS_MOST, NULL},
    {"rounds", "rounds of each thread", 1000, 1, UINT32_MAX, NULL},
    {"live", "live blocks of each thread, not a multiple of 7919", 5000, 10, 10000000, NULL},
    {"cross", "every how many rounds blocks go to the neighbour", 2, 1, UINT32_MAX, NULL},
};

/* Blocks given by the neighbour: a list whose links stand in the blocks' third word. */
struct mailbox {
    _Alignas(128) _Atomic(uint64_t *) first;
    _Atomic uint32_t gifts; /* about how many lists wait: a bound, not an account */
};

#define BLOCK_LEAST 32 /* size, mark and link */

static struct mailbox mailboxes[THREADS_MOST];

static void mailbox_give(struct mailbox *mailbox, uint64_t *first, uint64_t *last) {
    uint64_t *old = atomic_load_explicit(&mailbox->first, memory_order_relaxed);
    do {
        last[2] = (uint64_t)(uintptr_t)old;
    } while (!atomic_compare_exchange_weak_explicit(&mailbox->first, &old, first,
                                                    memory_order_release, memory_order_relaxed));
    atomic_fetch_add_explicit(&mailbox->gifts, 1, memory_order_relaxed);
}

static int mailbox_has_room(struct mailbox *mailbox) {
    return atomic_load_explicit(&mailbox->gifts, memory_order_relaxed) < GIFTS_MOST;
}

static void mailbox_free(struct mailbox *mailbox) {
    atomic_store_explicit(&mailbox->gifts, 0, memory_order_relaxed);
    uint64_t *block = atomic_exchange_explicit(&mailbox->first, NULL, memory_order_acquire);
    while (block) {
        uint64_t *next = (uint64_t *)(uintptr_t)block[2];
        sized_delete(block);
        block = next;
    }
}

static uint64_t *block_mixed(struct random_stream *random) {
    uint64_t bytes = random_size_log(random, 4, 13);
    return (uint64_t *)sized_new(bytes < BLOCK_LEAST ? BLOCK_LEAST : bytes);
}

static void *churn(void *context) {
    uint64_t self = *(uint64_t *)context;
    uint64_t live = arguments[2].value;
    struct random_stream random = random_seeded(self);
    uint64_t **blocks = (uint64_t **)table_new(live, sizeof *blocks);
    for (uint64_t b = 0; b < live; b++) blocks[b] = block_mixed(&random);

    struct mailbox *neighbour = &mailboxes[(self + 1) % arguments[0].value];
    uint64_t place = 0;
    for (uint64_t round = 0; round < arguments[1].value; round++) {
        mailbox_free(&mailboxes[self]);
        int gives = round % arguments[3].value == 0 && mailbox_has_room(neighbour);
        uint64_t *first = NULL;
        uint64_t *last = NULL;
        for (uint64_t i = 0; i < live / 10; i++) {
            place = (place + STRIDE) % live;
            if (gives) {
                blocks[place][2] = (uint64_t)(uintptr_t)first;
                first = blocks[place];
                if (!last) last = first;
            } else {
                sized_delete(blocks[place]);
            }
            blocks[place] = block_mixed(&random);
        }
        if (first) mailbox_give(neighbour, first, last);
    }
    for (uint64_t b = 0; b < live; b++) sized_delete(blocks[b]);
    free(blocks);
    return NULL;
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "Blocks of 16 B to 16 KiB, a part of them freed by a neighbour.",
                    arguments, sizeof arguments / sizeof *arguments);
    if (arguments[2].value % STRIDE == 0) workload_misuse("live is a multiple of %d", STRIDE);
    static uint64_t numbers[THREADS_MOST];
    for (uint64_t t = 0; t < arguments[0].value; t++) numbers[t] = t;

    double started_s = time_now_s();
    threads_run(arguments[0].value, churn, numbers, sizeof *numbers);
    for (uint64_t t = 0; t < arguments[0].value; t++) mailbox_free(&mailboxes[t]);
    report_print(arguments[0].value * arguments[1].value * (arguments[2].value / 10), started_s);
    return 0;
}
