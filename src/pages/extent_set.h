/* extent_set.h - free spans of one state, found by size: best fit, lowest address first.
 *
 * Spans of up to EXACT_MAX slices are kept in a tree for each size, with a bit that says which are
 * not empty, so that the usual request costs a bit scan and a tree of a few nodes; greater ones
 * share one tree. All trees are extent trees, ordered by size and then address. */
#ifndef PRIM_PAGES_EXTENT_SET_H
#define PRIM_PAGES_EXTENT_SET_H

#include "pages/span.h"

enum { EXACT_MAX = 63 };

struct extent_set {
    uint64_t occupied;                 /* bit n: exact[n] is not empty; bit 0 is not used */
    struct span *exact[EXACT_MAX + 1]; /* trees of spans of exactly n slices */
    struct span *greater;              /* the tree of all others */
    _Atomic size_t slice_count;        /* (atomic: hint) in all spans; written as the set is */
};

/* Counts slices that belong to the set without being in it. */
PRIM_INLINE void extent_set_count(struct extent_set *set, ptrdiff_t slices) {
    store_relaxed(&set->slice_count, load_relaxed(&set->slice_count) + (size_t)slices);
}

void extent_set_insert(struct extent_set *set, struct span *span);
void extent_set_remove(struct extent_set *set, struct span *span);

/* The smallest span of at least slice_count slices, at the lowest address among equals; or NULL. */
struct span *extent_set_best_fit(const struct extent_set *set, size_t slice_count);

/* The largest span, at the highest address among equals, of those that come before one of this size
 * at this address; NULL if there is none. A walk from the largest down that lets the set change. */
struct span *extent_set_before(const struct extent_set *set, size_t slice_count, uintptr_t address);

/* The largest span, at the highest address among equals; NULL in an empty set. */
PRIM_INLINE struct span *extent_set_largest(const struct extent_set *set) {
    return extent_set_before(set, SIZE_MAX, 0);
}

/* A span with slice_count slices at a multiple of alignment; or NULL, also where many that are as
 * large lie elsewhere. Of those of just that size a look for each multiple that one is behind, from
 * the highest down; else at the first of each greater size. */
struct span *extent_set_aligned(const struct extent_set *set, size_t slice_count,
                                uintptr_t alignment);

#endif
