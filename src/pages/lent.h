/* lent.h - memory that is not the heap's, described as the heap's is. */
#ifndef PRIM_PAGES_LENT_H
#define PRIM_PAGES_LENT_H

#include "pages/span.h"

/* A BUSY span over it; NULL when there is no memory for descriptors. Ends by span_withdraw and
 * SPAN_NONE. */
struct span *lent_span(uintptr_t address, size_t size);

#endif
