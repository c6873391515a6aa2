/* arena_find.c - see arena_find.h; and what of arena.h only looks, or bounds. */
#include "objects/arena_find.h"

#include "objects/arena_cell.h"
#include "objects/arena_chunk.h"
#include "objects/thread_cache.h"

static struct arena_found find_large(struct span *span, const void *block) {
    if ((uintptr_t)block != span->address + span->block_offset) {
        return (struct arena_found){.arena = NULL};
    }
    return (struct arena_found){
        .arena = span->arena, .span = span, .usable = arena_large_size(span)};
}

struct arena_found arena_find(const void *block) {
    struct span *span = span_of_block(block);
    if (span->bucket == ARENA_LARGE) {
        return find_large(span, block);
    }
    if (span->bucket == ARENA_CELLS && !arena_cell_is_used(span, block)) {
        return (struct arena_found){.arena = NULL};
    }
    struct arena_chunk *chunk = arena_chunk_of(block);
    size_t granule = arena_chunk_find(chunk, block);
    if (!granule) {
        return (struct arena_found){.arena = NULL};
    }
    uintptr_t end = arena_chunk_address(chunk, granule) + arena_chunk_block_size(chunk, granule);
    return (struct arena_found){.arena = chunk->arena,
                                .chunk = chunk,
                                .granule = granule,
                                .usable = end - (uintptr_t)block};
}

/* The bytes of granules that a block goes on in are no beginning's. */
PRIM_COLD const void *arena_block_around(const void *address) {
    struct span *span = span_of_block(address);
    if (span->bucket == ARENA_LARGE) {
        return (void *)(span->address + span->block_offset);
    }
    if (span->bucket == ARENA_CELLS && !arena_cell_is_used(span, address)) {
        return address;
    }
    const struct arena_chunk *chunk = arena_chunk_of(address);
    size_t granule = ((uintptr_t)address - (uintptr_t)chunk) / ARENA_GRANULE;
    granule = bits_min(granule, chunk->next_granule);
    while (granule > chunk->first_granule && !(chunk->map[granule] & ARENA_USED)) {
        granule--;
    }
    return (void *)arena_chunk_block(chunk, granule);
}

bool arena_is_foreign(uintptr_t start, uintptr_t end) {
    while (start < end && !span_class_of((void *)start)) {
        start += SLICE_SIZE;
    }
    return start >= end;
}

size_t arena_usable_size(const void *block) {
    struct arena_found found = arena_find(block);
    return found.arena ? found.usable : 0;
}

struct arena *arena_or_tag_of(const void *block) {
    if (!block || span_class_of(block) != CLASS_ARENA) {
        return NULL;
    }
    struct arena *arena = arena_find(block).arena;
    bool is_known = arena && arena->kind != ARENA_INTERNAL && !load_relaxed(&arena->is_deleted);
    return is_known ? arena : NULL;
}

struct arena *arena_of(const void *block) {
    struct arena *arena = arena_or_tag_of(block);
    return arena && arena->kind == ARENA_HEAP ? arena : NULL;
}

bool arena_visit_areas(struct arena *arena, arena_area_visitor *visitor, void *argument) {
    for (struct arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next) {
        size_t granules = chunk->granule_count - chunk->first_granule;
        struct arena_area area = {(void *)arena_chunk_address(chunk, chunk->first_granule),
                                  granules * ARENA_GRANULE, chunk->used_count};
        if (!visitor(&area, argument)) {
            return false;
        }
    }
    for (struct span *span = arena->large; span; span = span->next) {
        void *block = (void *)(span->address + span->block_offset);
        if (!visitor(&(struct arena_area){block, arena_large_size(span), 1}, argument)) {
            return false;
        }
    }
    return true;
}

/* A chunk may go with its last block: the next block is looked for before the visitor runs. */
static bool visit_chunk(struct arena_chunk *chunk, arena_block_visitor *visitor, void *argument) {
    size_t granule = arena_chunk_next_used(chunk, 0);
    while (granule) {
        void *block = (void *)arena_chunk_block(chunk, granule);
        size_t size = arena_chunk_block_size(chunk, granule) - arena_chunk_shift(chunk, granule);
        granule = arena_chunk_next_used(chunk, granule + 1);
        if (!visitor(block, size, argument)) {
            return false;
        }
    }
    return true;
}

bool arena_visit_blocks(struct arena *arena, arena_block_visitor *visitor, void *argument) {
    for (struct arena_chunk *chunk = arena->chunks; chunk;) {
        struct arena_chunk *next = chunk->next;
        if (!visit_chunk(chunk, visitor, argument)) {
            return false;
        }
        chunk = next;
    }
    for (struct span *span = arena->large; span;) {
        struct span *next = span->next;
        void *block = (void *)(span->address + span->block_offset);
        if (!visitor(block, arena_large_size(span), argument)) {
            return false;
        }
        span = next;
    }
    return true;
}

void arena_set_limit(struct arena *arena, size_t limit) {
    thread_cache_nest();
    lock_acquire(&arena->lock, LOCK_ARENA);
    arena->counts.limit = limit;
    lock_release(&arena->lock, LOCK_ARENA);
    thread_cache_leave();
}

PRIM_COLD struct arena_counts arena_counts(struct arena *arena) {
    struct arena_counts counts = {0};
    if (!thread_cache_is_inside()) {
        thread_cache_nest();
        lock_acquire(&arena->lock, LOCK_ARENA);
        counts = arena->counts;
        lock_release(&arena->lock, LOCK_ARENA);
        thread_cache_leave();
    }
    return counts;
}
