/* large_guard.h - options.hardened: a slice behind a large block that nobody may touch.
 *
 * The guard is a span of its own, which belongs to whoever holds the block: so the block is as
 * large as ever to all who ask. It is BUSY, and nobody joins it. Before the block ends, or changes
 * in place, the guard becomes the block's last slice.
 *
 * To make and to end a guard are two system calls. So some of the blocks that were freed last are
 * kept, guards and all, for others of about their size: spans that are BUSY, and dirty. Each stands
 * in one word, which whoever takes it out exchanges for 0 (order pair: kept). */
#ifndef PRIM_OBJECTS_LARGE_GUARD_H
#define PRIM_OBJECTS_LARGE_GUARD_H

#include "pages/span.h"
#include "settings/options.h"

/* How many slices more than its own a block's span needs. */
PRIM_INLINE size_t large_guard_slices(void) {
    return options.hardened;
}

/* Makes the span's last slice its guard, where there may be one. */
void large_guard_begin(struct span *span);

/* Makes the guard the span's last slice. Where a limit on data stands in the way it stays what it
 * is, and nobody's; so do its few bytes of address space. */
void large_guard_end(struct span *span);

/* A kept span for a block of so many slices and such an alignment, or any; or NULL. */
#define LARGE_GUARD_ANY SIZE_MAX
struct span *large_guard_find(size_t slices, size_t alignment);

/* Keeps the dirty span of a block that has ended; returns the one that is to be freed instead:
 * itself, another one, or NULL. */
struct span *large_guard_keep(struct span *span);

/* Whether more is kept than serves. */
bool large_guard_is_excessive(void);

/* One that is kept no longer, or NULL. */
PRIM_INLINE struct span *large_guard_evict(void) {
    return large_guard_find(LARGE_GUARD_ANY, 0);
}

#endif
