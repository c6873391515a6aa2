/* large_guard.c - see large_guard.h. */
#include "objects/large_guard.h"

#include "pages/mapping.h"

void large_guard_begin(struct span *span) {
    uintptr_t guard = span_end(span) - SLICE_SIZE;
    span->has_guard = options.hardened && mapping_forbid(guard);
    if (span->has_guard) {
        span_create(guard, 1, SPAN_BUSY);
        span_create(span->address, span->slice_count - 1, span_state(span));
    }
}

void large_guard_end(struct span *span) {
    if (PRIM_UNLIKELY(span->has_guard) && mapping_allow(span_end(span))) {
        span_create(span->address, (size_t)span->slice_count + 1, span_state(span));
    }
    span->has_guard = false;
}
