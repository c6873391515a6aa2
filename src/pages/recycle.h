/* recycle.h - physical pages for a fresh span, or a part of one, from free spans elsewhere.
 *
 * When only CLEAN extents have room for a large request, free memory lies about in DIRTY pieces.
 * Moving their pages costs a twentieth of faulting new ones, and growing that way does not raise
 * the peak. Nor does it where pieces that are not worth moving go back to the system, as much as is
 * about to be touched; unless that turns out to be needed again.
 *
 * Locks: RECYCLE, held while pages are on their way, and by fork: no child is born meanwhile. */
#ifndef PRIM_PAGES_RECYCLE_H
#define PRIM_PAGES_RECYCLE_H

#include "pages/span.h"

/* Moves pages of dirty spans into a part of the caller's span that has none, or gives them back, as
 * far as there are any. Returns how many slices have pages now, from the start on; if any, the span
 * is no longer zero. */
size_t recycle_into(struct span *span, struct span_part part);

/* Until what is moved, or given back for it, is free again: it counts as in use meanwhile. */
void recycle_wait(void);

void recycle_fork_prepare(void);
void recycle_fork_parent(void);
void recycle_fork_child(void);

#endif
