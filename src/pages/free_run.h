/* free_run.h - free spans that follow each other, DIRTY and CLEAN, taken as one.
 *
 * Neither of two such neighbours may serve a block that both together could: clean memory would be
 * taken for it while dirty memory piles up beside it.
 *
 * Locks: PAGE_HEAP, held by the caller. */
#ifndef PRIM_PAGES_FREE_RUN_H
#define PRIM_PAGES_FREE_RUN_H

#include "pages/span.h"

/* A BUSY span of slice_count slices at a multiple of alignment that was such neighbours, at most
 * three quarters of it CLEAN, and the largest part that was CLEAN; or NULL. is_refused: as in
 * page_heap_may_touch. */
struct span *free_run_take(size_t slice_count, size_t alignment, bool is_refused,
                           struct span_part *fresh);

#endif
