/* The bin of ptmalloc's t-test programs: a place for one block, refilled in one of four ways. */
#ifndef BINS_H
#define BINS_H

#include <malloc.h>

#include "workload.h"

#define BINS_BUDGET_BYTES 8000000u /* the default number of bins shares this among all threads */
#define REALLOC_LARGEST 2000u      /* larger blocks are not realloc'ed: copying would rule */

struct bin {
    unsigned char *block;
    size_t bytes; /* 0 = empty */
};

static inline void bin_free(struct bin *bin) {
    if (bin->bytes == 0) return;
    block_delete(bin->block, bin->bytes);
    bin->bytes = 0;
}

static inline void *bin_zeroed(size_t bytes) {
    unsigned char *block = (unsigned char *)calloc(bytes, 1);
    if (block && (block[0] || block[bytes / 2] || block[bytes - 1]))
        workload_fail("calloc of %zu bytes gave memory that is not zero", bytes);
    return block;
}

static inline void *bin_resized(struct bin *bin, size_t bytes) {
    unsigned char last_kept = 0;
    size_t kept = bin->bytes < bytes ? bin->bytes : bytes;
    if (kept) {
        block_verify(bin->block, bin->bytes);
        last_kept = bin->block[kept - 1];
    }
    unsigned char *block = (unsigned char *)realloc(kept ? bin->block : NULL, bytes);
    if (block && kept && block[kept - 1] != last_kept)
        workload_fail("realloc from %zu to %zu bytes lost contents", bin->bytes, bytes);
    return block;
}

/* Of 1,024 refills 4 call memalign, 16 calloc, 80 realloc (if the old block is small) and the rest
 * malloc; `dice` decides. */
static inline void bin_alloc(struct bin *bin, size_t bytes, uint64_t dice) {
    dice %= 1024;
    void *block;
    if (dice >= 20 && dice < 100 && bin->bytes < REALLOC_LARGEST) {
        block = bin_resized(bin, bytes);
    } else {
        bin_free(bin);
        if (dice < 4)
            block = memalign(sizeof(int) << dice, bytes);
        else
            block = dice < 20 ? bin_zeroed(bytes) : malloc(bytes);
    }
    bin->block = (unsigned char *)block_found(block, bytes);
    bin->bytes = bytes;
    block_write(block, bytes);
}

/* Runs `total` threads, at most `parallel` at the same time: when one has ended it is joined and
 * the next one starts in its place. The body gets a number from 0 to total - 1. */
struct thread_relay {
    void (*body)(uint64_t number);
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t ended_count;            /* (lock) */
    pthread_t ended[THREADS_MOST]; /* (lock) threads to join */
};

static struct thread_relay thread_relay = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                           .changed = PTHREAD_COND_INITIALIZER};

static void *thread_relay_body(void *number) {
    thread_relay.body((uint64_t)(uintptr_t)number);
    pthread_mutex_lock(&thread_relay.lock);
    thread_relay.ended[thread_relay.ended_count++] = pthread_self();
    pthread_cond_signal(&thread_relay.changed);
    pthread_mutex_unlock(&thread_relay.lock);
    return NULL;
}

static pthread_t thread_relay_wait(void) {
    pthread_mutex_lock(&thread_relay.lock);
    while (thread_relay.ended_count == 0)
        pthread_cond_wait(&thread_relay.changed, &thread_relay.lock);
    pthread_t thread = thread_relay.ended[--thread_relay.ended_count];
    pthread_mutex_unlock(&thread_relay.lock);
    return thread;
}

static void thread_relay_run(uint64_t total, uint64_t parallel, void (*body)(uint64_t)) {
    thread_relay.body = body;
    uint64_t started = 0;
    uint64_t joined = 0;
    while (joined < total) {
        if (started < total && started - joined < parallel) {
            thread_start(thread_relay_body, (void *)(uintptr_t)started++);
        } else {
            thread_join(thread_relay_wait());
            joined++;
        }
    }
}

#endif
