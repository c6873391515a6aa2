/* huge.h - judgement about huge pages: where the kernel should use pages of 2 MiB.
 *
 * A huge page saves two thirds of the faults' time and most of the TLB, and costs up to 2 MiB of
 * memory nobody asked for. So (thp=auto) the kernel is asked for them only
 *   for whole blocks of 2 MiB without any page yet,
 *   when the range considered before, of the same kind (slabs and the like, or large blocks), has
 *   become dense by now: nearly all of its pages are resident; and for some times its size only,
 *   for slabs and the like, in a heap that is not small, nor small for its threads, and that does
 *   not grow slowly before it is large, and has no hard limit (which counts what is in use, not
 *   what is resident with it),
 *   and while the kernel hands them out quickly: a slow fault is followed by a time without.
 * Slabs' next range is asked for before it is begun: a page that another thread touches meanwhile
 * would keep it from being huge. At most the block that is being filled is wasted, for each kind.
 * thp=always asks for all of the heap and thp=never for none. Where the system's own setting is
 * "always", auto and never forbid huge pages in the rest of the heap, or small processes would grow
 * fat.
 *
 * Locks: none; the state is one judgement's, and a wrong one costs some time or space. */
#ifndef PRIM_PAGES_HUGE_H
#define PRIM_PAGES_HUGE_H

#include "pages/span.h"

/* New address space of the heap, of mapped_bytes by now. */
void huge_note_growth(uintptr_t start, size_t size, size_t mapped_bytes);

/* There are more threads with a cache at once than ever, by one. */
void huge_note_thread(void);

/* A BUSY span of less than 2 MiB was taken from a CLEAN extent that ends at clean_end, for this
 * lane (lane.h). The block of 2 MiB that it begins, if any, may become a huge page, and so may the
 * next. */
void huge_consider_small(const struct span *span, uintptr_t clean_end, unsigned lane);

/* So may whole blocks in this part, without any page yet, of a span that the caller owns. */
void huge_consider_large(uintptr_t address, uintptr_t end);

/* Pages of [start, end) go back or elsewhere: their huge pages are asked for no longer, or the
 * kernel's khugepaged would fill them up again. */
void huge_forget(uintptr_t start, uintptr_t end);

/* Maps size bytes, whole huge pages of the pool that the system has set aside (vm.nr_hugepages),
 * for large_os_pages. 0, and one line on standard error, when the pool has not so many. They never
 * go back before the process ends: the pool would not promise to have others for the place. */
uintptr_t huge_map_pool(size_t size);

/* Bytes that are free and clean but resident, in huge pages that are, or were, in use in part: what
 * these cost. Takes the page heap's lock. */
size_t huge_waste_bytes(void);

/* Gives them back, at the price of breaking up the huge pages; returns how many were resident. */
size_t huge_return_waste(void);

extern PRIM_HIDDEN _Atomic size_t huge_asked_bytes; /* (atomic: counter) ranges asked about */
extern PRIM_HIDDEN _Atomic size_t huge_pool_bytes;  /* (atomic: counter) mapped from the pool */

#endif
