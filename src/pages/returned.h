/* returned.h - how much of what went back to the system was needed again soon: the price of
 * returning it, a fault for each page, was paid for nothing.
 *
 * Each 2 MiB of heap remembers when pages of it last went back, and how much: so much of what
 * comes into use there within a second counts, whichever pages they are. So the sum is a bound, and
 * never more than what went back. Hints only; free while nothing goes back. */
#ifndef PRIM_PAGES_RETURNED_H
#define PRIM_PAGES_RETURNED_H

#include "base/atomics.h"

/* (atomic: counter) bytes that came into use within a second after as many of their 2 MiB
 * went back */
extern PRIM_HIDDEN _Atomic uint64_t returned_needed_bytes;

/* (atomic: hint) something went back once */
extern PRIM_HIDDEN _Atomic bool returned_is_any;

/* Pages of [start, end) are about to go back: those that are resident count. Returns their bytes,
 * 0 where that is not told. */
size_t returned_note(uintptr_t start, uintptr_t end);

void returned_count_needed(uintptr_t start, uintptr_t end);

/* Pages of [start, end) that may have gone back come into use. */
PRIM_INLINE void returned_need(uintptr_t start, uintptr_t end) {
    if (PRIM_UNLIKELY(load_relaxed(&returned_is_any))) {
        returned_count_needed(start, end);
    }
}

#endif
