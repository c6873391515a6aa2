/* The shadow of the heap: which address ranges are live. It lives in memory of its own, so that a
 * broken allocator cannot break it, and every function may be called from any thread. */
#ifndef TESTS_MODEL_LIVE_MAP_H
#define TESTS_MODEL_LIVE_MAP_H

#include <stddef.h>
#include <stdint.h>

/* capacity: how many ranges may be live at once. */
void live_map_create(size_t capacity);

/* Adds [start, start + size) (at least one byte). Returns NULL, or the start of a live range that
 * overlaps it: then nothing is added and *overlapped_size tells its size. */
const void *live_map_add(const void *start, size_t size, size_t *overlapped_size);

/* Removes the range that begins at start; returns its size, or 0 when there is none. */
size_t live_map_remove(const void *start);

size_t live_map_count(void);

#endif
