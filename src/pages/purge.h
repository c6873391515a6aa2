/* purge.h - which free pages go back to the system, and when.
 *
 * Low-water epochs: an epoch lasts options.purge_delay, and an eighth of it while the process is
 * younger than that. The page heap remembers the least number of dirty slices of the epoch: that
 * many were idle throughout, so that many are purged at its end. Memory that is allocated and freed
 * again and again lowers the mark and never faults. */
#ifndef PRIM_PAGES_PURGE_H
#define PRIM_PAGES_PURGE_H

#include "pages/span.h"

/* Takes a BUSY span back and looks at the clock once for every so many spans and mebibytes. */
void purge_free(struct span *span, enum span_state state);

/* Ends the running epoch if its time is over, purging what was idle. Called on slow paths. */
void purge_tick(void);

/* Purges all free memory but keep_bytes of it; returns the bytes given back. */
size_t purge_all(size_t keep_bytes);

#endif
