/* The calls of first-class heaps. */
#include <errno.h>
#include <string.h>

#include "fuzz/calls.h"

static struct heap *choose_heap(struct player *player) {
    return &player->heaps[feed_below(&player->feed, HEAPS_MOST)];
}

static void call_heap_new(struct player *player) {
    struct heap *heap = choose_heap(player);
    if (heap->name) return;
    bool is_lent = feed_below(&player->feed, 3) == 0;
    shadow_note(player, "heap_new", NULL, is_lent, 0);
    if (is_lent && player->lent) {
        size_t offset = feed_below(&player->feed, 65536);
        size_t size = LENT_BYTES - offset - feed_below(&player->feed, 65536) * 8;
        errno = 0; /* EINVAL where an earlier heap over this memory still has blocks */
        heap->name = prim_heap_new_in(player->lent + offset, size);
        heap->may_fail = true;
    } else {
        heap->name = prim_heap_new();
        heap->may_fail = false;
        if (!heap->name && !rules.may_run_out) finding(player, "no memory for a heap");
    }
}

static void call_heap_end(struct player *player) {
    struct heap *heap = choose_heap(player);
    if (!heap->name || heap->is_shared) return;
    bool blocks_stay = feed_below(&player->feed, 2);
    shadow_note(player, blocks_stay ? "heap_delete" : "heap_destroy", heap->name, 0, 0);
    shadow_heap_ends(player, heap->name, blocks_stay);
    if (blocks_stay) {
        prim_heap_delete(heap->name);
    } else {
        prim_heap_destroy(heap->name);
    }
    *heap = (struct heap){0};
}

static void call_heap_limit(struct player *player) {
    struct heap *heap = choose_heap(player);
    if (!heap->name || (heap->is_shared && !heap->may_fail)) return;
    size_t limit = feed_below(&player->feed, 4) * 100000;
    shadow_note(player, "heap_set_limit", heap->name, limit, 0);
    heap->may_fail = true; /* from now on, for it may have had lent memory */
    prim_heap_set_limit(heap->name, limit);
}

static void call_heap_malloc(struct player *player) {
    struct heap *heap = choose_heap(player);
    size_t size = choose_size(player);
    size_t alignment = heap->name || size > 8 ? 16 : 8;
    shadow_note(player, "heap_malloc", heap->name, size, 0);
    unsigned char *start = NULL;
    enum origin origin = heap->name ? FROM_HEAP : FROM_MALLOC;
    errno = 0;
    switch (feed_below(&player->feed, 5)) {
    case 0:
        start = prim_heap_calloc(heap->name, 1, size);
        if (start) shadow_check_zero(player, start, 0, size);
        break;
    case 1:
        alignment = choose_alignment(player);
        start = prim_heap_aligned_alloc(heap->name, alignment, size);
        if (!heap->name) origin = FROM_ALIGNED;
        break;
    default:
        start = prim_heap_malloc(heap->name, size);
    }
    shadow_adopt(player, (struct block){.start = start,
                                        .size = size,
                                        .alignment = alignment,
                                        .heap = heap->name,
                                        .origin = origin});
}

static void call_heap_aligned_at(struct player *player) {
    struct heap *heap = choose_heap(player);
    size_t size = choose_size(player);
    size_t alignment = choose_alignment(player);
    size_t offset = feed_below(&player->feed, 300);
    shadow_note(player, "heap_malloc_aligned_at", heap->name, size, alignment);
    errno = 0;
    unsigned char *start = prim_heap_malloc_aligned_at(heap->name, size, alignment, offset);
    if (start && ((uintptr_t)start + offset) % alignment != 0) {
        finding(player, "block %p plus %zu is not aligned", (void *)start, offset);
    }
    shadow_adopt(player, (struct block){.start = start,
                                        .size = size,
                                        .alignment = 1,
                                        .heap = heap->name,
                                        .origin = heap->name ? FROM_HEAP : FROM_MALLOC});
}

static void call_heap_realloc(struct player *player) {
    if (player->count == 0) return;
    struct heap *heap = choose_heap(player);
    size_t index = feed_below(&player->feed, (uint32_t)player->count);
    struct block old = player->blocks[index];
    if (!shadow_may_resize(&old)) return;
    size_t size = choose_size(player);
    if (size == 0) return;
    shadow_note(player, "heap_realloc", old.start, old.size, size);
    errno = 0;
    unsigned char *start = prim_heap_realloc(heap->name, old.start, size);
    if (!start) {
        shadow_may_fail(player, size, 1, heap->name);
        return;
    }
    shadow_check(player, &old, start, size < old.size ? size : old.size);
    size_t alignment = start == old.start ? old.alignment : size > 8 ? 16 : 8;
    player->held_bytes -= old.usable;
    player->blocks[index] = player->blocks[--player->count];
    shadow_adopt(player, (struct block){.start = start,
                                        .size = size,
                                        .alignment = alignment,
                                        .heap = heap->name,
                                        .origin = heap->name ? FROM_HEAP : FROM_MALLOC});
}

static void call_heap_text(struct player *player) {
    static const char text[] = "texts that are kept in heaps are copies of what was given, as ever";
    struct heap *heap = choose_heap(player);
    size_t most = feed_below(&player->feed, 80);
    shadow_note(player, "heap_strndup", heap->name, most, 0);
    bool is_whole = most >= sizeof text;
    errno = 0;
    char *copy =
        is_whole ? prim_heap_strdup(heap->name, text) : prim_heap_strndup(heap->name, text, most);
    size_t length = most < sizeof text - 1 ? most : sizeof text - 1;
    if (copy && (memcmp(copy, text, length) != 0 || copy[length] != 0)) {
        finding(player, "the copy of a text differs");
    }
    shadow_adopt(player, (struct block){.start = (unsigned char *)copy,
                                        .size = length + 1,
                                        .alignment = 8,
                                        .heap = heap->name,
                                        .origin = heap->name ? FROM_HEAP : FROM_MALLOC});
}

static void call_heap_of(struct player *player) {
    if (player->count == 0) return;
    struct block *block = &player->blocks[feed_below(&player->feed, (uint32_t)player->count)];
    struct heap *heap = choose_heap(player);
    shadow_note(player, "heap_of", block->start, block->size, 0);
    if (prim_heap_of(block->start) != block->heap) {
        finding(player, "block %p is in heap %p and said to be in %p", (void *)block->start,
                (void *)block->heap, (void *)prim_heap_of(block->start));
    }
    if (heap->name && prim_heap_contains(heap->name, block->start) != (heap->name == block->heap)) {
        finding(player, "heap %p does not know what it has", (void *)heap->name);
    }
}

static void call_heap_counts(struct player *player) {
    struct heap *heap = choose_heap(player);
    if (!heap->name || heap->is_shared) return;
    shadow_note(player, "heap_counts", heap->name, 0, 0);
    struct prim_heap_counts counts;
    prim_heap_counts(heap->name, &counts);
    size_t bytes;
    size_t blocks = shadow_heap_blocks(player, heap->name, &bytes);
    bool is_right = rules.has_zones ? counts.bytes >= bytes : counts.bytes == bytes;
    if (counts.blocks != blocks || !is_right || counts.peak_bytes < counts.bytes) {
        finding(player, "heap %p counts %zu blocks of %zu bytes, not %zu of %zu",
                (void *)heap->name, counts.blocks, counts.bytes, blocks, bytes);
    }
}

struct visit {
    struct player *player;
    size_t blocks, bytes;
};

static bool see_block(const prim_heap_t *heap, void *start, size_t size, void *argument) {
    struct visit *visit = argument;
    visit->blocks++;
    visit->bytes += size;
    for (size_t i = 0; i < visit->player->count; i++) {
        const struct block *block = &visit->player->blocks[i];
        if (block->heap == heap && block->start == start && block->usable == size) {
            return true;
        }
    }
    finding(visit->player, "heap %p shows %p of %zu bytes, which is not there", (const void *)heap,
            start, size);
}

static bool see_area(const prim_heap_t *heap, const struct prim_heap_area *area, void *argument) {
    struct visit *visit = argument;
    (void)heap;
    visit->blocks += area->blocks;
    return true;
}

static void call_heap_visit(struct player *player) {
    struct heap *heap = choose_heap(player);
    if (!heap->name || heap->is_shared) return;
    shadow_note(player, "heap_visit_blocks", heap->name, 0, 0);
    struct visit visit = {player, 0, 0};
    struct visit areas = {player, 0, 0};
    prim_heap_visit_blocks(heap->name, see_block, &visit);
    prim_heap_visit_areas(heap->name, see_area, &areas);
    size_t bytes;
    size_t blocks = shadow_heap_blocks(player, heap->name, &bytes);
    if (visit.blocks != blocks || areas.blocks != blocks || visit.bytes != bytes) {
        finding(player, "heap %p shows %zu blocks of %zu bytes, %zu in areas, and has %zu of %zu",
                (void *)heap->name, visit.blocks, visit.bytes, areas.blocks, blocks, bytes);
    }
}

const struct choice heap_choices[] = {
    {call_heap_new, 4},
    {call_heap_end, 4},
    {call_heap_limit, 1},
    {call_heap_malloc, 24},
    {call_heap_realloc, 5},
    {call_heap_text, 2},
    {call_heap_aligned_at, 2},
    {call_heap_of, 4},
    {call_heap_counts, 2},
    {call_heap_visit, 1},
    {NULL, 0},
};
