/* purge.h - which free pages go back to the system, and when.
 *
 * Two clocks, one rule each:
 *   Epochs ride on the program's own slow calls. One lasts options.purge_delay. The page heap
 *   remembers the least number of dirty slices of the epoch: that many were idle throughout, so
 *   that many are purged after its end, a little by each slow call, which is never long for it;
 *   fewer if what went is soon needed again.
 *   Windows belong to the maintenance thread and last a whole options.purge_delay. Once it opened
 *   one, each 2 MiB of heap remembers when some of it was last freed; what was dirty at the
 *   window's begin and not taken since is purged at its end. What comes back within the delay
 *   never faults, however late the thread wakes: the whole window must lie in the pause.
 *
 * Neither takes more than leaves options.top_pad. An options.trim_threshold switches both off: what
 * is free above it goes within purge_free, as glibc trims its heap, and nothing else goes.
 *
 * What goes: whole 2 MiB first, of the largest spans first, at the highest addresses first; pieces
 * when nothing whole is left. Huge pages are broken up for less than a quarter of them by a window
 * only, after one in which there was nothing else to do. At most BATCH_SIZE a system call, more
 * behind what had no pages; it runs outside the page heap's lock, and its span is BUSY meanwhile.
 *
 * Locks: PURGE, held while pages go back, system calls included, and by fork: no child is born
 * while a span is on its way. Slow calls only try it; the thread leaves off after a batch for
 * whoever waits. */
#ifndef PRIM_PAGES_PURGE_H
#define PRIM_PAGES_PURGE_H

#include "pages/page_heap.h"

/* Takes a BUSY span back and looks at the clock once for every so many spans and mebibytes. */
void purge_free(struct span *span, enum span_state state);

/* (atomic: hint) Time to look at the clock, or not all is purged that was idle in an epoch. */
extern PRIM_HIDDEN _Atomic bool purge_is_due;

/* Ends the running epoch if its time is over; purges some of what was idle in the one before.
 * Called on slow paths: now and then, and often while a purge is under way. */
void purge_tick(void);

/* Opens a window: from now on ages are kept. */
void purge_open_window(void);

/* Ends the window and opens the next one, and breaks up huge pages for small parts if it may;
 * returns the bytes given back, and tells whether there are dirty pages that were freed too late
 * for this window. The caller sees to it that a window lasts long enough. */
size_t purge_end_window(bool may_break, bool *has_young);

/* Purges all free memory but keep_bytes of it; returns how many bytes of it were resident. */
size_t purge_all(size_t keep_bytes);

/* A hint of the bytes that were needed again soon after they had gone back, in this epoch. */
uint64_t purge_needed_bytes(void);

/* How many of the bytes below, about, have no pages because nobody touched them; counted until
 * there are more than enough, as a look at each span is a few system calls. */
size_t purge_bare_bytes(size_t enough);

/* A hint, without a lock, of the free bytes that may be resident. */
PRIM_INLINE size_t purge_returnable_bytes(void) {
    return load_relaxed(&page_heap.dirty.slice_count) * SLICE_SIZE;
}

void purge_fork_prepare(void);
void purge_fork_parent(void);
void purge_fork_child(void);

#endif
