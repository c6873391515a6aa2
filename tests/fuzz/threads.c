/* The fuzzer's second target: each input is four sequences for each of three threads, which play at
 * the same time, allocate from two shared heaps beside their own, and hand blocks to each other.
 * Now and then a thread ends and another takes its place. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/calls.h"

enum { THREADS = 3, SHARED_HEAPS = 2, MAIL = 32, BLOCKS_KEPT = 16, LENT_ALIGNMENT = 16384 };

static struct player players[THREADS];
static pthread_t threads[THREADS];
static pthread_barrier_t begin, end;
static _Alignas(LENT_ALIGNMENT) unsigned char lent[THREADS][LENT_BYTES];

static struct { /* what this input asks of the threads; written between end and begin */
    const uint8_t *bytes;
    size_t size;
    bool is_last[THREADS];
} work;

static struct block mail[MAIL]; /* under its lock */
static pthread_mutex_t mail_lock = PTHREAD_MUTEX_INITIALIZER;

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Gives a block away and takes the one that lies there. */
static void exchange(struct player *player) {
    uint32_t place = feed_below(&player->feed, MAIL);
    if (player->count == 0) return;
    size_t index = feed_below(&player->feed, (uint32_t)player->count);
    prim_heap_t *heap = player->blocks[index].heap;
    bool is_own = heap != NULL;
    for (int i = 0; i < SHARED_HEAPS; i++) is_own = is_own && heap != player->heaps[i].name;
    if (is_own) return;
    struct block given = shadow_take(player, index);
    pthread_mutex_lock(&mail_lock);
    struct block taken = mail[place];
    mail[place] = given;
    pthread_mutex_unlock(&mail_lock);
    if (!taken.start) return;
    shadow_note(player, "block of another thread", taken.start, taken.size, 0);
    shadow_check(player, &taken, taken.start, taken.usable);
    shadow_adopt(player, taken);
}

static void play_part(size_t number) {
    enum { PARTS = 4 };
    struct player *player = &players[number];
    size_t size = work.size / THREADS;
    for (size_t part = 0; part < PARTS; part++) {
        const uint8_t *bytes = work.bytes + number * size + part * (size / PARTS);
        play(player, bytes, size / PARTS, number * PARTS + part);
        for (int i = 0; i < MAIL / 4; i++) exchange(player);
    }
    play_end(player, BLOCKS_KEPT);
}

static void *live(void *argument) {
    size_t number = (size_t)(uintptr_t)argument;
    bool is_last = false;
    while (!is_last) {
        pthread_barrier_wait(&begin);
        is_last = work.is_last[number];
        play_part(number);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void start_thread(size_t number) {
    if (pthread_create(&threads[number], NULL, live, (void *)(uintptr_t)number) != 0) abort();
}

static __attribute__((destructor)) void report(void) {
    uint64_t calls = 0, sequences = 0;
    for (size_t i = 0; i < THREADS; i++) {
        calls += players[i].calls;
        sequences += players[i].sequences;
    }
    fprintf(stderr, "stat::calls: %llu\nstat::sequences: %llu\n", (unsigned long long)calls,
            (unsigned long long)sequences);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    (void)count;
    (void)arguments;
    play_start();
    pthread_barrier_init(&begin, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        players[i].lent = lent[i];
        start_thread(i);
    }
    return 0;
}

/* What lies in shared heaps ends with them, wherever it is. */
static void end_shared_heaps(prim_heap_t **shared) {
    for (int i = 0; i < MAIL; i++) {
        if (mail[i].start && mail[i].heap) mail[i] = (struct block){0};
    }
    for (int heap = 0; heap < SHARED_HEAPS; heap++) {
        for (size_t i = 0; i < THREADS; i++) {
            if (shared[heap]) shadow_heap_ends(&players[i], shared[heap], false);
            players[i].heaps[heap] = (struct heap){0};
        }
        prim_heap_destroy(shared[heap]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    enum { ROUNDS_A_THREAD = 64 };
    static size_t rounds;
    prim_heap_t *shared[SHARED_HEAPS];
    for (int heap = 0; heap < SHARED_HEAPS; heap++) {
        shared[heap] = prim_heap_new();
        for (size_t i = 0; i < THREADS; i++) {
            players[i].heaps[heap] = (struct heap){shared[heap], heap == 1, true};
        }
    }
    rounds++;
    work.bytes = bytes;
    work.size = size;
    for (size_t i = 0; i < THREADS; i++) work.is_last[i] = rounds % ROUNDS_A_THREAD == i;
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    for (size_t i = 0; i < THREADS; i++) {
        if (work.is_last[i]) {
            pthread_join(threads[i], NULL);
            start_thread(i);
        }
    }
    end_shared_heaps(shared);
    return 0;
}
