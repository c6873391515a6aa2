/* The fuzzer's first target: one sequence of calls an input, in one thread, on a heap that lives as
 * long as the process and keeps some blocks from each sequence to the next. */
#include <stdio.h>

#include "fuzz/calls.h"

enum { BLOCKS_KEPT = 24, LENT_ALIGNMENT = 16384 };

static struct player player;
static _Alignas(LENT_ALIGNMENT) unsigned char lent[LENT_BYTES];

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static __attribute__((destructor)) void report(void) {
    fprintf(stderr, "stat::calls: %llu\nstat::sequences: %llu\n", (unsigned long long)player.calls,
            (unsigned long long)player.sequences);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    (void)count;
    (void)arguments;
    player.lent = lent;
    play_start();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    play(&player, bytes, size, 0);
    play_end(&player, BLOCKS_KEPT);
    return 0;
}
