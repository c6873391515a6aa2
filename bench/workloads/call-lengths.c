/* The longest calls: a program whose calls of malloc and free are counted, instruction by
 * instruction, by whoever traces it (bench/curves.py does, with valgrind's lackey): malloc_begins,
 * free_begins and call_ends stand around each. Blocks have 16 bytes to 32 KiB, each power of two
 * equally likely. The scenes:
 *
 *   churn    random replacement among <live> blocks
 *   bulk     <live> blocks come, and go in the order of their addresses, backwards, and at random
 *   idle     of many blocks most are freed, uncounted; then nothing for a second; then churn
 *   threads  eight threads, one after the other, each with its first blocks; others free them
 */
#include "figures.h"

enum { SCENE_CHURN, SCENE_BULK, SCENE_IDLE, SCENE_THREADS };

static const char *const scene_words[] = {"churn", "bulk", "idle", "threads", NULL};

static struct argument arguments[] = {
    {"scene", "what the calls are", SCENE_CHURN, 0, 0, scene_words},
    {"live", "live blocks", 3000, 16, 10000000, NULL},
    {"operations", "counted replacements", 30000, 0, 10000000, NULL},
    {"pauses", "pauses of a second (idle)", 2, 0, 100, NULL},
};

static uint64_t calls_counted; /* one thread at a time counts */

/* By their addresses a reader of the trace knows the calls; each must have one of its own. */
__attribute__((noinline)) void malloc_begins(void) {
    __asm__ volatile("" ::"i"(1) : "memory");
}

__attribute__((noinline)) void free_begins(void) {
    __asm__ volatile("" ::"i"(2) : "memory");
}

__attribute__((noinline)) void call_ends(void) {
    __asm__ volatile("" ::"i"(3) : "memory");
    calls_counted++;
}

static void *counted_new(size_t bytes) {
    malloc_begins();
    uint64_t *block = (uint64_t *)malloc(bytes);
    call_ends();
    block_found(block, bytes);
    block[0] = bytes;
    block[1] = block_mark(block, bytes);
    return block;
}

static void counted_delete(void *block) {
    uint64_t *words = (uint64_t *)block;
    if (words[1] != block_mark(block, words[0])) workload_fail("block %p lost its contents", block);
    free_begins();
    free(block);
    call_ends();
}

static size_t any_size(struct random_stream *random) {
    return random_size_log(random, 4, 14);
}

static void churn(void **blocks, uint64_t live, struct random_stream *random) {
    for (uint64_t i = 0; i < arguments[2].value; i++) {
        void **block = &blocks[random_below(random, live)];
        counted_delete(*block);
        *block = counted_new(any_size(random));
    }
}

static void scene_churn(void **blocks, uint64_t live, struct random_stream *random) {
    for (uint64_t b = 0; b < live; b++) blocks[b] = counted_new(any_size(random));
    churn(blocks, live, random);
    for (uint64_t b = 0; b < live; b++) counted_delete(blocks[b]);
}

static int by_address(const void *left, const void *right) {
    uintptr_t one = *(uintptr_t const *)left;
    uintptr_t other = *(uintptr_t const *)right;
    return (one > other) - (one < other);
}

static void shuffle(void **blocks, uint64_t live, struct random_stream *random) {
    for (uint64_t b = live - 1; b > 0; b--) {
        uint64_t other = random_below(random, b + 1);
        void *kept = blocks[b];
        blocks[b] = blocks[other];
        blocks[other] = kept;
    }
}

static void scene_bulk(void **blocks, uint64_t live, struct random_stream *random) {
    for (unsigned order = 0; order < 3; order++) {
        for (uint64_t b = 0; b < live; b++) blocks[b] = counted_new(any_size(random));
        if (order == 2)
            shuffle(blocks, live, random);
        else
            qsort(blocks, live, sizeof *blocks, by_address);
        for (uint64_t b = 0; b < live; b++) counted_delete(blocks[order == 1 ? live - 1 - b : b]);
    }
}

/* 50 times the blocks of the other scenes, all but every twentieth freed at random. */
static void scene_idle(void **blocks, uint64_t live, struct random_stream *random) {
    enum { MANY = 50, KEPT_ONE_IN = 20 };
    for (uint64_t pause = 0; pause < arguments[3].value; pause++) {
        uint64_t many = live * MANY;
        void **crowd = (void **)pages_new(many * sizeof *crowd);
        for (uint64_t b = 0; b < many; b++)
            crowd[b] = sized_new(random_size_log(random, 4, pause % 2 ? 14 : 8));
        shuffle(crowd, many, random);
        uint64_t kept = many / KEPT_ONE_IN;
        for (uint64_t b = kept; b < many; b++) sized_delete(crowd[b]);
        pause_us(1100000);
        for (uint64_t b = 0; b < live; b++) blocks[b] = counted_new(any_size(random));
        churn(blocks, live, random);
        for (uint64_t b = 0; b < live; b++) counted_delete(blocks[b]);
        for (uint64_t b = 0; b < kept; b++) counted_delete(crowd[b]);
        munmap(crowd, many * sizeof *crowd);
    }
}

struct part {
    void **blocks;
    uint64_t count;
};

static void *part_build(void *context) {
    struct part *part = (struct part *)context;
    struct random_stream random = random_seeded(part->count);
    for (uint64_t b = 0; b < part->count; b++) {
        if (part->blocks[b]) counted_delete(part->blocks[b]); /* another thread's */
        part->blocks[b] = counted_new(any_size(&random));
    }
    return NULL;
}

static void scene_threads(void **blocks, uint64_t live, struct random_stream *random) {
    enum { PARTS = 8, ROUNDS = 3 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (uint64_t p = 0; p < PARTS; p++) {
            struct part part = {blocks + p * (live / PARTS), live / PARTS};
            thread_join(thread_start(part_build, &part));
        }
    }
    shuffle(blocks, live, random);
    for (uint64_t b = 0; b < live; b++) {
        if (blocks[b]) counted_delete(blocks[b]);
    }
}

int main(int argc, char **argv) {
    arguments_parse(argc, argv, "How many instructions the longest calls of malloc and free take.",
                    arguments, sizeof arguments / sizeof *arguments);
    static void (*const scenes[])(void **, uint64_t, struct random_stream *) = {
        [SCENE_CHURN] = scene_churn,
        [SCENE_BULK] = scene_bulk,
        [SCENE_IDLE] = scene_idle,
        [SCENE_THREADS] = scene_threads,
    };
    uint64_t live = arguments[1].value;
    void **blocks = (void **)pages_new(live * sizeof *blocks);
    struct random_stream random = random_seeded(1);
    double started_s = time_now_s();
    scenes[arguments[0].value](blocks, live, &random);
    report_print(calls_counted, started_s);
    return 0;
}
