/* The shadow of the heap that a sequence of calls is compared with: where each live block lies,
 * what it holds, which heap it belongs to. One player is one sequence; nothing in it is shared. */
#ifndef TESTS_FUZZ_SHADOW_H
#define TESTS_FUZZ_SHADOW_H

#include <stdbool.h>

#include "fuzz/feed.h"
#include "primalloc.h"

enum { BLOCKS_MOST = 128, HEAPS_MOST = 4, HISTORY = 32, LENT_BYTES = 1 << 20 };

/* How a block came to be, which decides how it may be freed. */
enum origin { FROM_MALLOC, FROM_ALIGNED, FROM_NEW, FROM_NEW_ALIGNED, FROM_HEAP };

struct block {
    unsigned char *start;
    size_t size; /* as asked for */
    size_t usable;
    size_t alignment;
    prim_heap_t *heap; /* NULL: the default heap */
    uint64_t tag;      /* its content follows from it */
    enum origin origin;
    bool is_array; /* of operator new[] */
};

struct heap {
    prim_heap_t *name; /* NULL: none */
    bool may_fail;     /* has a limit, or lent memory */
    bool is_shared;    /* other players use it: it can be neither counted nor ended */
};

struct call_record {
    const char *name;
    const void *block;
    size_t size, detail;
};

struct player {
    struct feed feed;
    struct heap heaps[HEAPS_MOST];
    struct block blocks[BLOCKS_MOST]; /* the live ones are the first count */
    size_t count;
    size_t held_bytes;
    uint64_t tags;
    uint64_t calls, sequences;
    bool has_changed_settings;
    struct call_record history[HISTORY];
    unsigned char *lent; /* memory of LENT_BYTES for heaps */
};

/* What the environment allows: set once by play_start. */
struct rules {
    bool may_run_out; /* a hard limit is set: any allocation may fail */
    bool may_misuse;  /* what is no block of ours may be freed, what is of new resized */
    bool has_zones;   /* checks are on: a heap counts its blocks with what surrounds them */
};
extern struct rules rules;

/* Who plays in this thread, for faults that the library hears of by itself; and whether it misuses
 * the library on purpose just now. */
extern _Thread_local struct player *player_here;
extern _Thread_local bool is_misuse;

/* Notes a call for the report of a finding, which it precedes. */
void shadow_note(struct player *player, const char *name, const void *block, size_t size,
                 size_t detail);

/* Says what is wrong and what led there, and aborts. */
_Noreturn __attribute__((format(printf, 2, 3))) void finding(struct player *player,
                                                             const char *format, ...);

/* Looks at a new block and fills it; NULL is a finding unless it may be. Returns whether there is
 * one. The other fields of the block are to be filled before. */
bool shadow_adopt(struct player *player, struct block block);

/* What adopting consists of, for a block that stays where it is in the table. */
void shadow_fill(struct player *player, struct block *block);

/* Whether this call may give NULL, and errno is right. */
void shadow_may_fail(struct player *player, size_t size, size_t alignment, prim_heap_t *heap);

/* Whether a heap may run out of memory where others do not. */
bool shadow_heap_may_fail(const struct player *player, prim_heap_t *name);

/* Looks whether the first length bytes of a block's content are there, at start. */
void shadow_check(struct player *player, const struct block *block, const unsigned char *start,
                  size_t length);

/* Whether a fresh range is zero. */
void shadow_check_zero(struct player *player, const unsigned char *start, size_t from, size_t to);

/* Takes a block out of the table, checked; the copy is what is to be freed. */
struct block shadow_take(struct player *player, size_t index);

/* The blocks of a heap: how many, and their bytes. And what becomes of them at the heap's end. */
size_t shadow_heap_blocks(struct player *player, prim_heap_t *heap, size_t *bytes);
void shadow_heap_ends(struct player *player, prim_heap_t *heap, bool blocks_stay);

/* Whether a block may be given to realloc: one of operator new only where misuse is forgiven. */
bool shadow_may_resize(const struct block *block);

/* Sizes of all kinds, impossible ones among them, and alignments. */
size_t choose_size(struct player *player);
size_t choose_alignment(struct player *player);

#endif
