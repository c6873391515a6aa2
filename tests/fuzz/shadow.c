#include "fuzz/shadow.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE = 512, PLACES = 12, HUGE_REQUEST = 1 << 29, HELD_MOST = 32 << 20 };

struct rules rules;
_Thread_local struct player *player_here;
_Thread_local bool is_misuse;

void shadow_note(struct player *player, const char *name, const void *block, size_t size,
                 size_t detail) {
    player->history[player->calls++ % HISTORY] = (struct call_record){name, block, size, detail};
}

void finding(struct player *player, const char *format, ...) {
    uint64_t first = player->calls > HISTORY ? player->calls - HISTORY : 0;
    for (uint64_t i = first; i < player->calls; i++) {
        const struct call_record *call = &player->history[i % HISTORY];
        fprintf(stderr, "  %llu: %s(%p, %zu, %zu)\n", (unsigned long long)i, call->name,
                call->block, call->size, call->detail);
    }
    va_list arguments;
    va_start(arguments, format);
    fputs("finding: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
    abort();
}

static uint64_t word_at(uint64_t tag, size_t offset) {
    return (tag + offset) * 0x9e3779b97f4a7c15u;
}

/* Where a block's content is written and looked at: everywhere in small ones, in words at even
 * distances in the others, the first and the last among them. */
static size_t place(const struct block *block, size_t number) {
    size_t last = block->usable - sizeof(uint64_t);
    return block->usable <= WHOLE ? number * sizeof(uint64_t) : last / (PLACES - 1) * number;
}

static size_t places(const struct block *block) {
    return block->usable <= WHOLE ? block->usable / sizeof(uint64_t) : PLACES;
}

void shadow_fill(struct player *player, struct block *block) {
    block->tag = player->tags += 0x10001;
    for (size_t i = 0; i < places(block); i++) {
        size_t offset = place(block, i);
        uint64_t word = word_at(block->tag, offset);
        memcpy(block->start + offset, &word, sizeof word);
    }
    uint64_t word = word_at(block->tag, block->usable);
    size_t tail = block->usable % sizeof word;
    if (tail > 0) memcpy(block->start + block->usable - tail, &word, tail);
}

/* Compares without a call: the fuzzer listens at memcmp. */
static void check_bytes(struct player *player, const struct block *block, const void *start,
                        size_t offset, uint64_t word, size_t length) {
    uint64_t found = word;
    if (length == sizeof word) {
        memcpy(&found, start, sizeof word);
    } else {
        memcpy(&found, start, length);
    }
    if (found != word) {
        finding(player, "block %p of %zu bytes (%zu usable) changed at offset %zu",
                (const void *)block->start, block->size, block->usable, offset);
    }
}

void shadow_check(struct player *player, const struct block *block, const unsigned char *start,
                  size_t length) {
    size_t tail = block->usable % sizeof(uint64_t);
    size_t count = places(block);
    for (size_t i = 0; i < count; i++) {
        size_t offset = place(block, i);
        if (offset >= length) return;
        size_t part = length - offset < sizeof(uint64_t) ? length - offset : sizeof(uint64_t);
        /* The last place of a large block lies under the tail. */
        if (tail > 0 && offset + part > block->usable - tail) part = block->usable - tail - offset;
        check_bytes(player, block, start + offset, offset, word_at(block->tag, offset), part);
    }
    if (tail > 0 && length == block->usable) {
        check_bytes(player, block, start + block->usable - tail, block->usable - tail,
                    word_at(block->tag, block->usable), tail);
    }
}

void shadow_check_zero(struct player *player, const unsigned char *start, size_t from, size_t to) {
    enum { EACH = 512 };
    size_t stride = to - from <= EACH ? 1 : (to - from) / EACH;
    for (size_t i = from; i < to; i += stride) {
        if (start[i] != 0) {
            finding(player, "block %p is not zero at offset %zu of [%zu, %zu)", (const void *)start,
                    i, from, to);
        }
    }
}

/* Compared with all blocks, which are few. */
static void check_place(struct player *player, const struct block *fresh) {
    uintptr_t start = (uintptr_t)fresh->start;
    uintptr_t end = start + (fresh->usable > 0 ? fresh->usable : 1);
    if (start % fresh->alignment != 0) {
        finding(player, "block %p is not aligned to %zu", (void *)fresh->start, fresh->alignment);
    }
    if (fresh->usable < fresh->size) {
        finding(player, "block %p of %zu bytes has %zu usable", (void *)fresh->start, fresh->size,
                fresh->usable);
    }
    for (size_t i = 0; i < player->count; i++) {
        const struct block *other = &player->blocks[i];
        uintptr_t other_start = (uintptr_t)other->start;
        if (start < other_start + (other->usable > 0 ? other->usable : 1) && other_start < end) {
            finding(player, "block %p of %zu bytes overlaps %p of %zu", (void *)fresh->start,
                    fresh->usable, (const void *)other->start, other->usable);
        }
    }
}

bool shadow_heap_may_fail(const struct player *player, prim_heap_t *name) {
    for (size_t i = 0; name && i < HEAPS_MOST; i++) {
        if (player->heaps[i].name == name) return player->heaps[i].may_fail;
    }
    return false;
}

void shadow_may_fail(struct player *player, size_t size, size_t alignment, prim_heap_t *heap) {
    if (errno != ENOMEM) finding(player, "NULL with errno %d", errno);
    if (size < HUGE_REQUEST && alignment < HUGE_REQUEST && !rules.may_run_out &&
        !shadow_heap_may_fail(player, heap)) {
        finding(player, "no memory for %zu bytes aligned to %zu", size, alignment);
    }
}

bool shadow_adopt(struct player *player, struct block block) {
    if (!block.start) {
        shadow_may_fail(player, block.size, block.alignment, block.heap);
        return false;
    }
    block.usable = prim_malloc_usable_size(block.start);
    if (block.size > SIZE_MAX / 2) finding(player, "%zu bytes were given", block.size);
    check_place(player, &block);
    shadow_fill(player, &block);
    player->blocks[player->count++] = block;
    player->held_bytes += block.usable;
    return true;
}

struct block shadow_take(struct player *player, size_t index) {
    struct block block = player->blocks[index];
    size_t usable = prim_malloc_usable_size(block.start);
    if (usable != block.usable) {
        finding(player, "usable size of %p was %zu and is %zu", (void *)block.start, block.usable,
                usable);
    }
    shadow_check(player, &block, block.start, block.usable);
    player->held_bytes -= block.usable;
    player->blocks[index] = player->blocks[--player->count];
    return block;
}

size_t shadow_heap_blocks(struct player *player, prim_heap_t *heap, size_t *bytes) {
    size_t count = 0;
    *bytes = 0;
    for (size_t i = 0; i < player->count; i++) {
        if (player->blocks[i].heap == heap) {
            count++;
            *bytes += player->blocks[i].usable;
        }
    }
    return count;
}

void shadow_heap_ends(struct player *player, prim_heap_t *heap, bool blocks_stay) {
    for (size_t i = player->count; i > 0; i--) {
        struct block *block = &player->blocks[i - 1];
        if (block->heap == heap && blocks_stay) {
            block->heap = NULL;
        } else if (block->heap == heap) {
            shadow_take(player, i - 1);
        }
    }
}

bool shadow_may_resize(const struct block *block) {
    return rules.may_misuse || (block->origin != FROM_NEW && block->origin != FROM_NEW_ALIGNED);
}

/* Mostly small: the pages that a size touches cost more than all the rest of its call. */
size_t choose_size(struct player *player) {
    struct feed *feed = &player->feed;
    uint32_t kind = feed_take(feed, 1);
    bool is_rare = kind >= 252 && feed_take(feed, 1) < (kind == 255 ? 16 : 4);
    if (kind < 210) return feed_below(feed, 1025);
    if (kind < 246 || player->held_bytes > HELD_MOST) return feed_below(feed, 16385);
    if (kind < 250) return ((size_t)1 << (3 + feed_below(feed, 18))) + feed_below(feed, 3) - 1;
    if (kind < 252 || !is_rare) return feed_take(feed, 3) % (kind < 252 ? 300000 : 40000);
    if (kind < 254) return feed_take(feed, 3) % (4 << 20);
    if (kind < 255) return (size_t)feed_take(feed, 3) << 2;
    return feed_take(feed, 1) % 2 ? SIZE_MAX - feed_take(feed, 2) : SIZE_MAX / 2 + 1;
}

size_t choose_alignment(struct player *player) {
    uint32_t kind = feed_take(&player->feed, 1);
    return (size_t)1 << (kind < 240 ? kind % 13 : kind % 23);
}
