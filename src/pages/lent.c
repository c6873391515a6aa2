/* lent.c - see lent.h. */
#include "pages/lent.h"

#include "pages/page_heap.h"

struct span *lent_span(uintptr_t address, size_t size) {
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    struct span *span =
        span_cover(address, size) ? span_create(address, size / SLICE_SIZE, SPAN_BUSY) : NULL;
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    return span;
}
