/* large_guard.c - see large_guard.h. */
#include "objects/large_guard.h"

#include "pages/mapping.h"
#include "pages/page_heap.h"

void large_guard_begin(struct span *span) {
    uintptr_t guard = span_end(span) - SLICE_SIZE;
    span->has_guard = options.hardened && mapping_forbid(guard);
    if (span->has_guard) {
        page_heap_cut(span, span->slice_count - 1);
    }
}

void large_guard_end(struct span *span) {
    if (PRIM_UNLIKELY(span->has_guard) && mapping_allow(span_end(span))) {
        page_heap_cut(span, (size_t)span->slice_count + 1);
    }
    span->has_guard = false;
}
