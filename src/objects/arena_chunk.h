/* arena_chunk.h - the inside of an arena's chunks; see arena.h. All with the arena's lock held. */
#ifndef PRIM_OBJECTS_ARENA_CHUNK_H
#define PRIM_OBJECTS_ARENA_CHUNK_H

#include "objects/arena.h"

/* What a request comes to in a chunk. */
struct arena_fit {
    unsigned object_class; /* of the block */
    unsigned search_class; /* of a block that surely has it in it, aligned */
    size_t alignment;      /* at least a granule */
    size_t residue;        /* of the block's address by the alignment */
    size_t shift;          /* of the pointer handed out behind the block's address */
};

/* False if no chunk can hold it. */
bool arena_chunk_fit(const struct arena *arena, const struct arena_request *request,
                     struct arena_fit *fit);

/* Writes the head of a chunk of size bytes; is_zero: all its bytes are. */
struct arena_chunk *arena_chunk_create(struct arena *arena, void *memory, size_t size,
                                       bool is_zero);

/* Bytes of a chunk that a block of this size, alone in it, needs. */
size_t arena_chunk_bytes_for(size_t block_size);

/* The new chunk is the one that is carved; what the one before has left becomes free blocks. */
void arena_chunk_insert(struct arena *arena, struct arena_chunk *chunk);
void arena_chunk_remove(struct arena *arena, struct arena_chunk *chunk);

/* A live block, or NULL if no chunk has room. Tells, if asked, whether it is known to be zero. */
void *arena_chunk_take(struct arena *arena, const struct arena_fit *fit, bool *is_zero);

/* The chunk that a free block or a live one lies in: any but a large one. */
struct arena_chunk *arena_chunk_of(const void *block);

/* The granule of the live block that the pointer is the start of; 0 if there is none. */
size_t arena_chunk_find(const struct arena_chunk *chunk, const void *pointer);

PRIM_INLINE uintptr_t arena_chunk_address(const struct arena_chunk *chunk, size_t granule) {
    return (uintptr_t)chunk + granule * ARENA_GRANULE;
}

PRIM_INLINE size_t arena_chunk_block_size(const struct arena_chunk *chunk, size_t granule) {
    return size_classes[chunk->map[granule] & ~(unsigned)ARENA_USED].size;
}

/* Bytes that a live block's pointer lies behind the granule that it begins in. */
PRIM_INLINE size_t arena_chunk_shift(const struct arena_chunk *chunk, size_t granule) {
    return arena_chunk_block_size(chunk, granule) > ARENA_GRANULE ? chunk->map[granule + 1] : 0;
}

/* The pointer to a live block that the program has. */
PRIM_INLINE uintptr_t arena_chunk_block(const struct arena_chunk *chunk, size_t granule) {
    return arena_chunk_address(chunk, granule) + arena_chunk_shift(chunk, granule);
}

/* The live block ends. True if it was the chunk's last: then the chunk has no block at all anymore,
 * is as good as new, and may leave. */
bool arena_chunk_give_back(struct arena *arena, struct arena_chunk *chunk, size_t granule);

/* Bytes in pages of the chunk, which may be NULL, that surely nobody ever touched. */
size_t arena_chunk_untouched(const struct arena_chunk *chunk);

/* The first live block's granule from there on, or 0. */
size_t arena_chunk_next_used(const struct arena_chunk *chunk, size_t granule);

#endif
