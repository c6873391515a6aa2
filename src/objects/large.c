/* large.c - see large.h. */
#include "objects/large.h"

#include <string.h>

#include "base/bits.h"
#include "objects/size_class.h"
#include "os/memory.h"
#include "pages/page_heap.h"
#include "pages/purge.h"

enum {
    MOVE_SIZE_MIN = 1 << 20, /* copying less is about as quick as moving pages */
    MOVE_COUNT_MAX = 8192,   /* each move may split a kernel mapping, of which there are 65,530 */
};

/* 0 when the size is impossible. */
static size_t slices_for(size_t size) {
    return size > PTRDIFF_MAX - SLICE_SIZE ? 0 : (size + SLICE_SIZE - 1) / SLICE_SIZE;
}

static struct span *allocate_span(size_t size, size_t alignment) {
    size_t slices = slices_for(size);
    size_t limit = (size_t)1 << (PRIM_ADDRESS_BITS - SLICE_SHIFT);
    if (slices == 0 || slices > limit || alignment / SLICE_SIZE > limit - slices) {
        return NULL;
    }
    struct span *span = page_heap_allocate(slices, alignment);
    if (span) {
        span_publish(span, SPAN_LARGE, CLASS_LARGE);
    }
    return span;
}

void *large_allocate(size_t size, size_t alignment, bool *is_zero) {
    struct span *span = allocate_span(size, alignment);
    if (!span) {
        return NULL;
    }
    if (is_zero) {
        *is_zero = span->is_zero;
    }
    return (void *)span->address;
}

void large_release(struct span *span) {
    span_withdraw(span);
    purge_free(span, SPAN_DIRTY);
}

bool large_resize(struct span *span, size_t size) {
    size_t slices = slices_for(size);
    if (slices == 0 || size <= MEDIUM_SIZE_MAX) {
        return false;
    }
    if (slices < span->slice_count) {
        page_heap_shrink(span, slices);
        return true;
    }
    return slices == span->slice_count || page_heap_grow(span, slices);
}

static bool move_pages(const struct span *from, const struct span *to) {
    static _Atomic unsigned moves; /* (atomic: hint) */
    size_t size = bits_min(span_size(from), span_size(to));
    if (size < MOVE_SIZE_MIN || memory_page_size() > SLICE_SIZE ||
        load_relaxed(&moves) >= MOVE_COUNT_MAX) {
        return false;
    }
    add_relaxed(&moves, 1);
    return memory_move((void *)from->address, (void *)to->address, size);
}

void *large_move(struct span *span, size_t size) {
    struct span *target = allocate_span(size, 0);
    if (!target) {
        return NULL;
    }
    if (move_pages(span, target)) {
        span_withdraw(span);
        purge_free(span, SPAN_CLEAN);
    } else {
        memcpy((void *)target->address, (void *)span->address,
               bits_min(span_size(span), span_size(target)));
        large_release(span);
    }
    return (void *)target->address;
}
