/* sparse.h - whether the program leaves most of its large blocks untouched inside.
 *
 * Who uses only the ends of large blocks has few pages resident, as long as each address serves
 * blocks of one size. Where freed spans are joined and cut anew, all of the heap gets touched in
 * the end. So we look at the middle page of some spans that are freed: while most of them have
 * none, the page heap keeps as much apart as is in use (page_heap.c), blocks of up to 1 MiB are of
 * size classes, and threads keep more of them (bin.c): one that is cached costs the pages of its
 * ends. Blocks that are filled would take up to twice their memory so. Above 1 MiB, where a look is
 * little, each span is kept apart that is bare itself, whatever most of them are.
 *
 * Who searches is looked at more often than who finds the spans apart, but seldom once sixteen
 * looks in a row met a page: a look is a system call. */
#ifndef PRIM_PAGES_SPARSE_H
#define PRIM_PAGES_SPARSE_H

#include "base/bits.h"
#include "pages/span.h"

enum {
    SPARSE_MIN = 3,  /* slices of a span that is looked at, or kept apart */
    SPARSE_KEPT = 6, /* such blocks of a size in a bin, and times the usual bound of a cache */
};

extern PRIM_HIDDEN _Atomic bool sparse_is_on;       /* (atomic: hint) most have none */
extern PRIM_HIDDEN _Atomic bool sparse_look_is_due; /* (atomic: hint) */

/* (atomic: hint) Looks that are still to come soon, since it began: the first ones may have met
 * what the program had not got round to touching. */
extern PRIM_HIDDEN _Atomic unsigned sparse_doubts;

/* (atomic: hint) Looks that are still to meet a page, each, before they become rare. */
extern PRIM_HIDDEN _Atomic unsigned sparse_unsure;

/* Looks at a BUSY span that is about to be freed. */
void sparse_look(const struct span *span);

/* Whether such a span has hardly any pages, by its middle one first; false where nobody can tell,
 * and in hardened mode, whose spans end with a guard. */
bool sparse_is_bare(const struct span *span);

/* How many of a range's samples, a page in each part, have pages; all where nobody can tell. */
enum { SPARSE_SAMPLES = 4 };
unsigned sparse_samples(uintptr_t address, size_t size);

#endif
