/* front_door.h - the program's calls that the fast path does not serve.
 *
 * Whoever watches (watcher.h) sees them here; else they go on by the slow door. The caller is where
 * the program's own call returns to: the functions of the family either reach these in a jump, so
 * that the return address is still the program's, or hand over their own. */
#ifndef PRIM_OBJECTS_FRONT_DOOR_H
#define PRIM_OBJECTS_FRONT_DOOR_H

#include "objects/arena.h"
#include "objects/watcher.h"

/* Reached in a jump. malloc's first one is for sizes above SMALL_SIZE_MAX; calloc is told the
 * product; realloc frees at size 0. */
void *front_malloc_medium(size_t size);
void *front_malloc(size_t size);
void *front_calloc(size_t size);
void *front_realloc(void *block, size_t size);
void front_free(void *block);
void front_free_sized(void *block, size_t size);
void front_free_aligned_sized(void *block, size_t alignment, size_t size);

/* alignment 0: that of malloc. Any call that allocates, or frees. */
void *front_allocate(size_t size, size_t alignment, enum call call, const void *caller);
void *front_reallocate(void *block, size_t size, const void *caller);
void front_release(void *block, size_t stated_size, size_t alignment, enum call call,
                   const void *caller);
/* For blocks of an arena, or NULL: when somebody watches. */
void *front_allocate_watched(struct arena *arena, struct arena_request wanted, enum call call,
                             const void *caller);
size_t front_usable_size(const void *block);
bool front_expand(void *block, size_t size);

#endif
