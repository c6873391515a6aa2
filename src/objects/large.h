/* large.h - blocks that are spans of their own: above MEDIUM_SIZE_MAX, but for those that have a
 * class while blocks stay untouched inside (size_class.h), and lesser ones that grow.
 *
 * Locks: PAGE_HEAP, inside. A span belongs to whoever holds its block. */
#ifndef PRIM_OBJECTS_LARGE_H
#define PRIM_OBJECTS_LARGE_H

#include "pages/span.h"

/* The span of a block of size bytes at a multiple of alignment (a power of two); NULL without
 * memory. Tells through is_zero, if not NULL, whether its bytes are known to be zero. */
struct span *large_allocate(size_t size, size_t alignment, bool *is_zero);

/* The same, but for the announcement: a BUSY span. */
struct span *large_take(size_t size, size_t alignment, bool *is_zero);

/* A block with room behind it, for one that has begun to grow: of any size; NULL without memory. */
void *large_allocate_growing(size_t size);

/* The large block, also of an arena, that an address lies in; NULL if in none, or if it begins more
 * than a GiB before. */
struct span *large_around(uintptr_t address);

/* How many blocks there are; the most bytes that all had at a time; how many there ever were. */
size_t large_count(void);
size_t large_peak_bytes(void);
size_t large_total_count(void);

void large_release(struct span *span);

/* Frees what large_guard.h keeps. */
void large_trim(void);

/* Makes the block size bytes without changing its address; false when it must move. */
bool large_resize(struct span *span, size_t size);

/* Moves the block to a greater one: a large one's pages where the kernel can, unless the new place
 * has its own. NULL without memory, and then the old block is as it was. */
void *large_move(struct span *span, size_t size);

#endif
