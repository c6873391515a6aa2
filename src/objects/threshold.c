/* threshold.c - see threshold.h. */
#include "objects/threshold.h"

#include "base/bits.h"
#include "objects/size_class.h"
#include "os/memory.h"
#include "pages/mapping.h"
#include "settings/options.h"

_Atomic size_t threshold_large_size_min = MEDIUM_SIZE_MAX + 1;

static _Atomic size_t block_count; /* (atomic: counter) blocks that have the property */

void threshold_apply_options(void) {
    size_t threshold = option_now(mmap_threshold);
    size_t least = MEDIUM_SIZE_MAX + 1;
    if (threshold < least && option_now(mmap_max) > 0) {
        unsigned object_class = size_class_of(threshold);
        least = object_class > CLASS_OF_8 ? size_classes[object_class - 1].size + 1 : 1;
    }
    store_relaxed(&threshold_large_size_min, least);
}

PRIM_COLD void threshold_mark(struct span *span, size_t size) {
    size_t least = option_now(mmap_threshold);
    if (least <= MEDIUM_SIZE_MAX) {
        least = load_relaxed(&threshold_large_size_min);
    }
    if (size >= least) {
        span->leaves_at_free = add_relaxed(&block_count, 1) < option_now(mmap_max);
        if (!span->leaves_at_free) {
            subtract_relaxed(&block_count, 1);
        }
    }
}

bool threshold_purge(const struct span *span, size_t slice_count) {
    size_t page = memory_page_size();
    uintptr_t start = span->address + slice_count * SLICE_SIZE;
    uintptr_t end = span_end(span);
    uintptr_t first = bits_round_up(start, page);
    uintptr_t last = bits_round_down(end, page);
    return first < last && mapping_drop(first, last - first) && first == start && last == end;
}

enum span_state threshold_shrink(const struct span *span, size_t slice_count) {
    return span->leaves_at_free && threshold_purge(span, slice_count) ? SPAN_CLEAN : SPAN_DIRTY;
}

enum span_state threshold_end(struct span *span, enum span_state state) {
    if (PRIM_LIKELY(!span->leaves_at_free)) {
        return state;
    }
    subtract_relaxed(&block_count, 1);
    return state == SPAN_DIRTY ? threshold_shrink(span, 0) : state;
}
