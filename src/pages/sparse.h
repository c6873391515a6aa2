/* sparse.h - whether the program leaves most of its large blocks untouched inside.
 *
 * Who uses only the ends of large blocks has few pages resident, as long as each address serves
 * blocks of one size. Where freed spans are joined and cut anew, all of the heap gets touched in
 * the end. So we look at the middle page of some spans that are freed: while most of them have
 * none, the page heap keeps as much apart as is in use (page_heap.c), and large sizes are rounded,
 * so that fewer are different. Blocks that are filled would take up to twice their memory so.
 *
 * Who searches is looked at more often than who finds the spans apart: a look is a system call. */
#ifndef PRIM_PAGES_SPARSE_H
#define PRIM_PAGES_SPARSE_H

#include "base/bits.h"
#include "pages/span.h"

enum { SPARSE_MIN = 3 }; /* slices of a span that is looked at, or kept apart */

extern PRIM_HIDDEN _Atomic bool sparse_is_on;       /* (atomic: hint) most have none */
extern PRIM_HIDDEN _Atomic bool sparse_look_is_due; /* (atomic: hint) */

/* Looks at a BUSY span that is about to be freed. */
void sparse_look(const struct span *span);

/* How many of a range's samples, a page in each part, have pages; all where nobody can tell. */
enum { SPARSE_SAMPLES = 4 };
unsigned sparse_samples(uintptr_t address, size_t size);

/* How many slices to take for a block of so many. */
PRIM_INLINE size_t sparse_round(size_t slice_count) {
    enum { ROUNDED_MIN = 16, ROUNDED_MAX = 64, STEPS_SHIFT = 2 }; /* four a doubling */
    if (load_relaxed(&sparse_is_on) && slice_count > ROUNDED_MIN && slice_count <= ROUNDED_MAX) {
        size_t step = (size_t)1 << (bits_highest(slice_count - 1) - STEPS_SHIFT);
        return bits_round_up(slice_count, step);
    }
    return slice_count;
}

#endif
