/* lane.h - fresh pages for threads that run side by side, each processor's in a block of its own.
 *
 * The kernel has one lock for the pages of each 2 MiB of address space, a fault takes it, and one
 * that other processors must hear of (a write to a page that was read as zero before) holds it
 * until all have answered. Where two threads touch fresh pages of one such block, they wait for
 * each other. So in a heap that is not small, among several threads, each processor's clean slices
 * follow one another in its lane, which goes on in a whole block that nobody has begun. What a lane
 * leaves behind is anybody's. */
#ifndef PRIM_PAGES_LANE_H
#define PRIM_PAGES_LANE_H

#include "pages/span.h"

enum {
    LANE_MOST = 32,
    LANE_SLICES = HUGE_SIZE / SLICE_SIZE, /* what is not less goes where it fits best */
    LANE_SEARCHED = 2 * LANE_SLICES - 1,  /* any extent of so many has a whole block */
};

/* How many lanes there are: 1 while all slices go where they fit best. */
unsigned lane_count(void);

/* With the page heap's lock held: what is left of a lane, a CLEAN span, or NULL if that is too
 * little; whether some lane goes on at this address; and where this one does from now on. */
struct span *lane_rest(unsigned lane, size_t slice_count);
bool lane_is_begun(uintptr_t address);
void lane_move(unsigned lane, uintptr_t address);

#endif
