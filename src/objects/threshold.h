/* threshold.h - options.mmap_threshold: blocks that leave the resident size when they are freed.
 *
 * glibc maps such blocks by themselves and unmaps them; here they are large blocks whose pages are
 * given back at once, and whose address space stays. At most options.mmap_max of them have that
 * property at a time, as in glibc; the others are large blocks like any.
 *
 * Where the threshold is below MEDIUM_SIZE_MAX, the classes from its own upwards are not used:
 * their bins stay empty, so malloc leaves the fast path for the slow door, which asks
 * threshold_is_large(). */
#ifndef PRIM_OBJECTS_THRESHOLD_H
#define PRIM_OBJECTS_THRESHOLD_H

#include "pages/span.h"
#include "settings/options.h"

/* Sizes from here on are large blocks: MEDIUM_SIZE_MAX + 1, unless the threshold is less. (But for
 * those up to SPARSE_SIZE_MAX while blocks stay untouched inside: slow_door.c.) */
extern PRIM_HIDDEN _Atomic size_t threshold_large_size_min; /* (atomic: hint) */

PRIM_INLINE bool threshold_is_large(size_t size) {
    return size >= load_relaxed(&threshold_large_size_min);
}

/* Applies the options as they are now. */
void threshold_apply_options(void);

/* Decides whether a new large block of this size has the property, and marks its span. */
void threshold_mark(struct span *span, size_t size);

PRIM_INLINE void threshold_begin(struct span *span, size_t size) {
    span->leaves_at_free = false;
    if (PRIM_UNLIKELY(option_now(mmap_threshold) != OPTION_AUTO)) {
        threshold_mark(span, size);
    }
}

/* The block ends, with its pages already gone (CLEAN) or not (DIRTY): gives them back if it had the
 * property. Returns their state after that. */
enum span_state threshold_end(struct span *span, enum span_state state);

/* The block ends at an earlier slice from now on: the same for what is behind. */
enum span_state threshold_shrink(const struct span *span, size_t slice_count);

/* Gives back what whole pages there are behind so many slices; true when that is all. */
bool threshold_purge(const struct span *span, size_t slice_count);

#endif
