/* extent_set.c - see extent_set.h. */
#include "pages/extent_set.h"

#include "base/bits.h"
#include "pages/extent_tree.h"

void extent_set_insert(struct extent_set *set, struct span *span) {
    size_t size = span->slice_count;
    extent_set_count(set, (ptrdiff_t)size);
    if (size <= EXACT_MAX) {
        extent_tree_insert(&set->exact[size], span);
        set->occupied |= (uint64_t)1 << size;
    } else {
        extent_tree_insert(&set->greater, span);
    }
}

void extent_set_remove(struct extent_set *set, struct span *span) {
    size_t size = span->slice_count;
    extent_set_count(set, -(ptrdiff_t)size);
    if (size <= EXACT_MAX) {
        extent_tree_remove(&set->exact[size], span);
        if (!set->exact[size]) {
            set->occupied &= ~((uint64_t)1 << size);
        }
    } else {
        extent_tree_remove(&set->greater, span);
    }
}

struct span *extent_set_best_fit(const struct extent_set *set, size_t slice_count) {
    if (slice_count <= EXACT_MAX) {
        uint64_t fitting = set->occupied >> slice_count << slice_count;
        if (fitting) {
            unsigned size = bits_lowest(fitting);
            return extent_tree_best_fit(set->exact[size], size);
        }
    }
    return extent_tree_best_fit(set->greater, slice_count);
}

struct span *extent_set_before(const struct extent_set *set, size_t slice_count,
                               uintptr_t address) {
    bool is_exact = slice_count <= EXACT_MAX;
    struct span *tree = is_exact ? set->exact[slice_count] : set->greater;
    struct span *span = extent_tree_before(tree, slice_count, address);
    if (span) {
        return span;
    }
    uint64_t smaller =
        is_exact ? set->occupied & (((uint64_t)1 << slice_count) - 1) : set->occupied;
    return smaller ? extent_tree_before(set->exact[bits_highest(smaller)], slice_count, 0) : NULL;
}

PRIM_COLD struct span *extent_set_aligned(const struct extent_set *set, size_t slice_count,
                                          uintptr_t alignment) {
    uintptr_t below = UINTPTR_MAX;
    for (int looks = 32; looks; looks--) {
        struct span *span = extent_set_before(set, slice_count, below);
        if (!span || span->slice_count != slice_count) {
            break;
        }
        if (!(span->address & (alignment - 1))) {
            return span;
        }
        below = bits_round_down(span->address, alignment) + 1;
    }
    size_t least = slice_count + 1;
    for (int looks = 64; looks; looks--) { /* the first of each greater size */
        struct span *span = extent_set_best_fit(set, least);
        if (!span ||
            span_end(span) >= bits_round_up(span->address, alignment) + slice_count * SLICE_SIZE) {
            return span;
        }
        least = span->slice_count + (size_t)1;
    }
    return NULL;
}
