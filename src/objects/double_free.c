/* double_free.c - see double_free.h. */
#include "objects/double_free.h"

#include "base/bits.h"
#include "objects/complaint.h"

enum { CAREFUL_CALLS = 64, BLOCKS_MAX = SLICE_SIZE / 8 };

static _Atomic uint64_t noticed;       /* (atomic: counter) */
static _Atomic unsigned careful_calls; /* (atomic: hint) that are left */

void double_free_note(const void *block) {
    add_relaxed(&noticed, 1);
    store_relaxed(&careful_calls, CAREFUL_CALLS);
    complaint_double_free(block);
}

uint64_t double_free_count(void) {
    return load_relaxed(&noticed);
}

bool double_free_is_likely(void) {
    unsigned left = load_relaxed(&careful_calls);
    if (PRIM_UNLIKELY(left != 0)) {
        store_relaxed(&careful_calls, left - 1);
    }
    return PRIM_UNLIKELY(left != 0);
}

/* Marks blocks of the slab, until one lies elsewhere or there were so many. */
static void mark_blocks(const struct span *slab, void *block, unsigned most, uint64_t *marks) {
    size_t size = size_classes[slab->object_class].size;
    for (; block && most; block = *(void **)block, most--) {
        size_t index = ((uintptr_t)block - slab->address) / size;
        if (index >= slab->carved_count) {
            return;
        }
        marks[index / 64] |= (uint64_t)1 << index % 64;
    }
}

/* A slab with pages asleep keeps what it has: which blocks sleep is not told by its list. */
PRIM_COLD void double_free_take(struct slab_set *set, struct span *slab, void *first,
                                unsigned count) {
    uint64_t marks[BLOCKS_MAX / 64] = {0};
    size_t size = size_classes[slab->object_class].size;
    if (slab->asleep_pages) {
        return;
    }
    mark_blocks(slab, slab->free_blocks, slab->free_count, marks);
    mark_blocks(slab, first, count, marks);
    unsigned before = slab->free_count;
    slab->free_blocks = NULL;
    slab->free_count = 0;
    for (size_t i = slab->carved_count; i--;) {
        void **block = (void **)(slab->address + i * size);
        if (marks[i / 64] >> i % 64 & 1) {
            *block = slab->free_blocks;
            slab->free_blocks = block;
            slab->free_count++;
        }
    }
    unsigned more = slab->free_count - before;
    slab->used_count = (uint16_t)(slab->used_count - more);
    set->used_count -= more;
    slab_set_count_free(set, (int32_t)more);
}

/* Turns a list round. A walk that comes to a circle goes round it and back to where it began, for
 * the links that it came by lead back: then the list begins with the same block as before. */
static void *turned(void *list) {
    void *before = NULL;
    while (list) {
        void *next = *(void **)list;
        *(void **)list = before;
        before = list;
        list = next;
    }
    return before;
}

/* How many blocks make the circle that a list ends in. A mark moves on to where the walk is
 * whenever that has become twice as long, until the walk comes back to it. */
static PRIM_COLD size_t circle_length(void *list) {
    void *block = list;
    for (size_t most = 64;; most *= 2) {
        void *mark = block;
        for (size_t left = most; left; left--) {
            block = *(void **)block;
            if (block == mark) {
                return most - left + 1;
            }
        }
    }
}

/* Of two walks that are one circle apart the first meets the second where the circle begins: with
 * the block that was freed again, and so linked again. */
static PRIM_COLD void cut_circle(void *list) {
    size_t length = circle_length(list);
    void *block = list;
    void **ahead = list;
    while (--length) {
        ahead = *ahead;
    }
    /* Now a circle's length less one ahead: what comes next is where the first walk must be. */
    while (*ahead != block) {
        ahead = *ahead;
        block = *(void **)block;
    }
    *ahead = NULL;
    double_free_note(block);
}

bool double_free_turn(void **list) {
    void *first = *list;
    *list = turned(first);
    bool is_circle = *list == first && *(void **)first;
    if (PRIM_UNLIKELY(is_circle)) {
        cut_circle(first);
    }
    return is_circle;
}
