/* What a sequence consists of: the calls, chosen by weight. */
#ifndef TESTS_FUZZ_CALLS_H
#define TESTS_FUZZ_CALLS_H

#include "fuzz/shadow.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void play_call(struct player *player);

struct choice {
    play_call *call;
    unsigned weight;
};

/* The tables of family.c, heaps.c and settings.c; the last entry has no call. */
extern const struct choice family_choices[], heap_choices[], setting_choices[];

/* Reads the environment; before the first sequence. FUZZ_MISUSE=0: no foreign pointers. */
void play_start(void);

/* Plays a sequence of 100 to 600 calls. */
void play(struct player *player, const uint8_t *bytes, size_t size, uint64_t salt);

/* Ends all heaps, and frees all blocks but so many. */
void play_end(struct player *player, size_t blocks_kept);

/* Frees a block in one of the ways that are right for it. */
void play_release(struct player *player, struct block block);

/* The C++ operators, for which the player needs a compiler of that language. Allocation by form (0
 * to 3: single or array, throwing or not) gives NULL when it throws. */
void *operator_new(unsigned form, size_t size, size_t alignment);
void operator_delete(unsigned form, void *block, size_t size, size_t alignment);

#ifdef __cplusplus
}
#endif

#endif
