/* growth.h - new address space for the heap: how much, and where. */
#ifndef PRIM_PAGES_GROWTH_H
#define PRIM_PAGES_GROWTH_H

#include "pages/span.h"

/* Adds at least slice_count contiguous CLEAN slices to the heap, and returns the extent that they
 * are in; or NULL. Locks: PAGE_HEAP, held by the caller. */
struct span *growth_extend(size_t slice_count);

#endif
