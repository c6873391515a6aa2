/* arena_chunk.c - see arena_chunk.h. */
#include "objects/arena_chunk.h"

#include <string.h>

#include "base/assert.h"
#include "objects/hardened.h"
#include "os/memory.h"

/* The greatest class whose blocks are not above size bytes. */
static unsigned class_within(const struct arena *arena, size_t size) {
    if (size >= size_classes[arena->class_last].size) {
        return arena->class_last;
    }
    unsigned object_class = size_class_of(size);
    return size_classes[object_class].size > size ? object_class - 1 : object_class;
}

/* Blocks of 8 bytes take a whole one. */
static size_t granules_of(unsigned object_class) {
    return (size_classes[object_class].size + ARENA_GRANULE / 2) / ARENA_GRANULE;
}

PRIM_INLINE uint64_t class_bit(unsigned object_class) {
    return (uint64_t)1 << object_class % 64;
}

static void push(struct arena *arena, struct arena_chunk *chunk, size_t granule,
                 unsigned object_class) {
    struct arena_block *block = (struct arena_block *)arena_chunk_address(chunk, granule);
    struct arena_block **list = &arena->free_blocks[object_class];
    chunk->map[granule] = (uint8_t)object_class;
    block->previous = NULL;
    block->next = *list;
    if (*list) {
        (*list)->previous = block;
    }
    *list = block;
    arena->filled[object_class / 64] |= class_bit(object_class);
}

static void unlink_block(struct arena *arena, struct arena_block *block, unsigned object_class) {
    if (block->next) {
        block->next->previous = block->previous;
    }
    if (block->previous) {
        block->previous->next = block->next;
        return;
    }
    arena->free_blocks[object_class] = block->next;
    if (!block->next) {
        arena->filled[object_class / 64] &= ~class_bit(object_class);
    }
}

/* Makes granules that no block begins in into free blocks. */
static void cut(struct arena *arena, struct arena_chunk *chunk, size_t first, size_t end) {
    while (first < end) {
        unsigned object_class = class_within(arena, (end - first) * ARENA_GRANULE);
        push(arena, chunk, first, object_class);
        first += granules_of(object_class);
    }
}

/* A sampled block of 8 bytes has no room for more, as those have not that it stands for. */
static size_t least_size(const struct arena *arena) {
    return arena->is_sampled && !hardened_is_on() ? 1 : ARENA_GRANULE;
}

bool arena_chunk_fit(const struct arena *arena, const struct arena_request *request,
                     struct arena_fit *fit) {
    size_t most = size_classes[arena->class_last].size;
    if (PRIM_LIKELY(request->alignment <= ARENA_GRANULE && request->offset == 0)) {
        size_t size = bits_max(request->size, least_size(arena));
        unsigned plain = size <= most ? size_class_of(size) : 0;
        *fit = (struct arena_fit){plain, plain, ARENA_GRANULE, 0, 0};
        return plain != 0;
    }
    size_t alignment = bits_max(request->alignment, 1);
    if (request->size > most || alignment > ARENA_ALIGNMENT_MAX) {
        return false;
    }
    fit->shift = (0 - request->offset) & (bits_min(alignment, ARENA_GRANULE) - 1);
    fit->alignment = bits_max(alignment, ARENA_GRANULE);
    fit->residue = (0 - request->offset - fit->shift) & (alignment - 1);
    size_t least = fit->shift ? 2 * ARENA_GRANULE : ARENA_GRANULE; /* see arena_chunk.map */
    size_t size = bits_max(request->size + fit->shift, least);
    if (size > most) {
        return false;
    }
    fit->object_class = size_class_of(size);
    size = size_classes[fit->object_class].size + fit->alignment - ARENA_GRANULE;
    fit->search_class = size <= most ? size_class_of(size) : 0;
    return size <= most;
}

size_t arena_chunk_bytes_for(size_t block_size) {
    size_t bytes = sizeof(struct arena_chunk) + block_size + (size_t)2 * ARENA_GRANULE;
    return bytes + bytes / (ARENA_GRANULE - 1) + 1; /* the map counts itself */
}

struct arena_chunk *arena_chunk_create(struct arena *arena, void *memory, size_t size,
                                       bool is_zero) {
    struct arena_chunk *chunk = memory;
    size_t granules = size / ARENA_GRANULE;
    if (!is_zero) {
        memset(chunk->map, 0, granules);
    }
    size_t head = bits_round_up(sizeof *chunk + granules, ARENA_GRANULE);
    chunk->arena = arena;
    chunk->next = NULL;
    chunk->previous = NULL;
    chunk->granule_count = (uint32_t)granules;
    chunk->first_granule = (uint32_t)(head / ARENA_GRANULE);
    chunk->next_granule = chunk->first_granule;
    chunk->used_count = 0;
    chunk->touched_granule = is_zero ? chunk->first_granule : chunk->granule_count;
    return chunk;
}

void arena_chunk_insert(struct arena *arena, struct arena_chunk *chunk) {
    struct arena_chunk *before = arena->chunks;
    if (before) {
        before->previous = chunk;
        cut(arena, before, before->next_granule, before->granule_count);
        before->next_granule = before->granule_count;
    }
    chunk->next = before;
    arena->chunks = chunk;
    arena->counts.area_bytes += (size_t)chunk->granule_count * ARENA_GRANULE;
}

void arena_chunk_remove(struct arena *arena, struct arena_chunk *chunk) {
    if (chunk->next) {
        chunk->next->previous = chunk->previous;
    }
    if (chunk->previous) {
        chunk->previous->next = chunk->next;
    } else {
        arena->chunks = chunk->next;
    }
    arena->counts.area_bytes -= (size_t)chunk->granule_count * ARENA_GRANULE;
}

struct arena_chunk *arena_chunk_of(const void *block) {
    struct span *span = span_of_block(block);
    return (struct arena_chunk *)(span->bucket == ARENA_CELLS
                                      ? bits_round_down((uintptr_t)block, ARENA_CELL_SIZE)
                                      : span->address);
}

/* The least class from this one on that has a free block, or 0. */
static unsigned filled_class(const struct arena *arena, unsigned object_class) {
    uint64_t bits = arena->filled[object_class / 64] & (~(uint64_t)0 << object_class % 64);
    if (bits) {
        return object_class / 64 * 64 + bits_lowest(bits);
    }
    bits = object_class < 64 ? arena->filled[1] : 0;
    return bits ? 64 + bits_lowest(bits) : 0;
}

PRIM_INLINE void *use(struct arena_chunk *chunk, size_t granule, const struct arena_fit *fit) {
    chunk->map[granule] = (uint8_t)(fit->object_class | ARENA_USED);
    if (PRIM_UNLIKELY(fit->shift)) {
        chunk->map[granule + 1] = (uint8_t)fit->shift;
    }
    chunk->used_count++;
    return (void *)(arena_chunk_address(chunk, granule) + fit->shift);
}

/* Takes granules of a range that holds no block: the block at its place, the rest free. */
static void *place(struct arena *arena, struct arena_chunk *chunk, size_t first, size_t end,
                   const struct arena_fit *fit) {
    uintptr_t address = arena_chunk_address(chunk, first);
    address += (fit->residue - address) & (fit->alignment - 1);
    size_t granule = (address - (uintptr_t)chunk) / ARENA_GRANULE;
    size_t behind = granule + granules_of(fit->object_class);
    PRIM_ASSERT(behind <= end);
    chunk->map[first] = 0;
    cut(arena, chunk, first, granule);
    cut(arena, chunk, behind, end);
    return use(chunk, granule, fit);
}

static void *take_listed(struct arena *arena, unsigned object_class, const struct arena_fit *fit) {
    struct arena_block *block = arena->free_blocks[object_class];
    struct arena_chunk *chunk = arena_chunk_of(block);
    size_t granule = ((uintptr_t)block - (uintptr_t)chunk) / ARENA_GRANULE;
    unlink_block(arena, block, object_class);
    bool is_exact = object_class == fit->object_class; /* then any place in it is the right one */
    if (PRIM_LIKELY(is_exact)) {
        return use(chunk, granule, fit);
    }
    return place(arena, chunk, granule, granule + granules_of(object_class), fit);
}

void *arena_chunk_take(struct arena *arena, const struct arena_fit *fit, bool *is_zero) {
    unsigned filled = filled_class(arena, fit->search_class);
    if (filled == fit->search_class && filled) {
        return take_listed(arena, filled, fit);
    }
    struct arena_chunk *chunk = arena->chunks;
    size_t granules = granules_of(fit->search_class);
    if (chunk && granules <= chunk->granule_count - chunk->next_granule) {
        size_t first = chunk->next_granule;
        if (is_zero) {
            *is_zero = first >= chunk->touched_granule;
        }
        chunk->next_granule += (uint32_t)granules;
        if (PRIM_LIKELY(fit->search_class == fit->object_class)) {
            return use(chunk, first, fit);
        }
        return place(arena, chunk, first, chunk->next_granule, fit);
    }
    return filled ? take_listed(arena, filled, fit) : NULL;
}

size_t arena_chunk_find(const struct arena_chunk *chunk, const void *pointer) {
    size_t granule = ((uintptr_t)pointer - (uintptr_t)chunk) / ARENA_GRANULE;
    bool is_block = granule >= chunk->first_granule && granule < chunk->granule_count &&
                    chunk->map[granule] & ARENA_USED;
    return is_block && (uintptr_t)pointer == arena_chunk_block(chunk, granule) ? granule : 0;
}

bool arena_chunk_give_back(struct arena *arena, struct arena_chunk *chunk, size_t granule) {
    if (PRIM_UNLIKELY(arena_chunk_shift(chunk, granule))) {
        chunk->map[granule + 1] = 0;
    }
    push(arena, chunk, granule, chunk->map[granule] & ~(unsigned)ARENA_USED);
    if (--chunk->used_count > 0) {
        return false;
    }
    for (size_t at = chunk->first_granule; at < chunk->next_granule;) {
        unsigned object_class = chunk->map[at];
        unlink_block(arena, (struct arena_block *)arena_chunk_address(chunk, at), object_class);
        chunk->map[at] = 0;
        at += granules_of(object_class);
    }
    chunk->touched_granule = (uint32_t)bits_max(chunk->touched_granule, chunk->next_granule);
    chunk->next_granule = chunk->first_granule;
    return true;
}

/* Of the blocks, and of the map that tells of them. */
PRIM_COLD size_t arena_chunk_untouched(const struct arena_chunk *chunk) {
    const struct span *span = chunk ? span_of_block(chunk) : NULL;
    if (!span || span->bucket != ARENA_CHUNK || span_has_mark(span->address, MARK_HUGE)) {
        return 0;
    }
    size_t page = memory_page_size();
    size_t granule = bits_max(chunk->touched_granule, chunk->next_granule);
    uintptr_t map = bits_round_up((uintptr_t)(chunk->map + granule), page);
    uintptr_t map_end = bits_round_down(arena_chunk_address(chunk, chunk->first_granule), page);
    uintptr_t blocks = bits_round_up(arena_chunk_address(chunk, granule), page);
    return (map < map_end ? map_end - map : 0) +
           (arena_chunk_address(chunk, chunk->granule_count) - blocks);
}

size_t arena_chunk_next_used(const struct arena_chunk *chunk, size_t granule) {
    for (size_t at = bits_max(granule, chunk->first_granule); at < chunk->next_granule; at++) {
        if (chunk->map[at] & ARENA_USED) {
            return at;
        }
    }
    return 0;
}
