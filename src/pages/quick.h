/* quick.h - DIRTY spans freed of late, apart by size and not joined with their neighbours.
 *
 * Where a program leaves its blocks untouched inside (sparse.h), each span shall serve blocks of
 * one size: then no page of it is touched but those where such blocks begin and end. Spans too
 * large for lists of their own share one. How much is kept here, and for how long, is
 * page_heap.c's.
 *
 * Locks: PAGE_HEAP, held by the caller. */
#ifndef PRIM_PAGES_QUICK_H
#define PRIM_PAGES_QUICK_H

#include "pages/span.h"

enum { QUICK_MAX = 63 }; /* slices of the largest with a list of its own */

struct quick_lists {
    uint64_t occupied;                  /* bit n: newest[n] is not NULL */
    struct span *newest[QUICK_MAX + 1]; /* linked through next; [0]: those that are larger */
    size_t slice_count;                 /* in all of them */
    uint32_t span_count;                /* in all of them */
    uint32_t hand;                      /* the list to be evicted from next */
};

PRIM_INLINE size_t quick_list_of(size_t slice_count) {
    return slice_count <= QUICK_MAX ? slice_count : 0;
}

/* Whether a list of one size has any. */
PRIM_INLINE bool quick_has_small(const struct quick_lists *lists) {
    return lists->occupied > 1;
}

/* The newest of a list that is not empty. */
PRIM_INLINE struct span *quick_pop(struct quick_lists *lists, size_t list) {
    struct span *span = lists->newest[list];
    lists->newest[list] = span->next;
    if (!span->next) {
        lists->occupied &= ~((uint64_t)1 << list);
    }
    lists->slice_count -= span->slice_count;
    lists->span_count--;
    return span;
}

/* Puts a BUSY span in. */
PRIM_INLINE void quick_insert(struct quick_lists *lists, struct span *span) {
    size_t list = quick_list_of(span->slice_count);
    span->next = lists->newest[list];
    lists->newest[list] = span;
    lists->occupied |= (uint64_t)1 << list;
    lists->slice_count += span->slice_count;
    lists->span_count++;
}

/* A BUSY span of just so many slices, at a multiple of alignment, among the newest of a list that
 * is not empty; or NULL. */
struct span *quick_take_from(struct quick_lists *lists, size_t list, size_t slice_count,
                             size_t alignment);

/* The same among all spans that there are. */
PRIM_INLINE struct span *quick_take(struct quick_lists *lists, size_t slice_count,
                                    size_t alignment) {
    size_t list = quick_list_of(slice_count);
    return lists->newest[list] ? quick_take_from(lists, list, slice_count, alignment) : NULL;
}

/* The newest span of some list, of all lists in turn; there must be one. */
struct span *quick_evict(struct quick_lists *lists);

#endif
