/* slab_pages.h - the system pages of one slab: which could sleep, which do, and waking them.
 *
 * A page is asleep when it was given back to the system; the slab's asleep_pages has a bit for
 * each. A block is asleep when any of its bytes lies in a page asleep. Such a block is free and in
 * no list, because the word that links it may be gone. So nobody touches a page asleep, and what
 * is in a free list may be handed out whatever else happens to the slab.
 *
 * All functions want the lock of the slab's set (CLASS) held. */
#ifndef PRIM_OBJECTS_SLAB_PAGES_H
#define PRIM_OBJECTS_SLAB_PAGES_H

#include "objects/slab_set.h"

enum { SLAB_PAGES_MAX = 64 };

/* The address of a page, by its bit in asleep_pages. */
uintptr_t slab_pages_address(const struct span *slab, unsigned page);

/* Puts the pages that only free blocks lie in to sleep, with their blocks. Returns their bits, 0
 * if there are none; the caller gives them back to the system. */
uint64_t slab_pages_sleep(struct slab_set *set, struct span *slab);

/* Wakes these consecutive pages. Returns how many blocks thereby awoke, and the first of them:
 * the others lie behind it. They are neither free nor used: that is the caller's to count. */
unsigned slab_pages_wake(struct span *slab, uint64_t pages, char **first);

/* The slab whose pages are just being given back, or NULL: nobody may wake any of them. Written
 * with SLAB_PURGE and the lock of the slab's set held, so that under the latter it is exact. */
extern PRIM_HIDDEN _Atomic(struct span *) slab_pages_busy; /* (atomic: hint) */

/* Wakes pages for about this many blocks of a set with slabs asleep, at least for one, and hands
 * those that awoke out as used: returns how many, and the first as above; 0 when the only slab
 * asleep is busy. */
unsigned slab_pages_take(struct slab_set *set, unsigned wanted, char **first);

#endif
