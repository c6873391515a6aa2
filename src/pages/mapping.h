/* mapping.h - the kernel's mappings under our address space: where they may be cut, and moving the
 * physical pages of one place to another.
 *
 * The kernel describes address space as mappings (VMAs), of which a process may have 65,530 or so.
 * Pages that were moved remember where they came from, so the place that they were moved to is a
 * mapping of its own from then on; so is a place with advice of its own. We note each such cut, one
 * bit a slice: a move never spans two mappings, which kernels before 6.17 refuse, and the number of
 * bits bounds what we make the kernel hold. */
#ifndef PRIM_PAGES_MAPPING_H
#define PRIM_PAGES_MAPPING_H

#include "pages/span.h"

/* Whether fewer cuts were made than we may make. */
bool mapping_may_cut(void);

/* The same, and moving is on and possible. */
bool mapping_may_move(void);

/* The kernel was told something of the range [start, end), and may have cut or joined mappings. The
 * caller owns some of it; its neighbours may do the same at the same time. */
void mapping_note_advice(uintptr_t start, uintptr_t end);

/* Moves the physical pages of [from, from + size) to [to, to + size), whose own are given back;
 * all multiples of SLICE_SIZE and of the page size. The source stays mapped and reads as zero.
 * Returns how many bytes were moved from the start on: less than size, or 0, where the kernel has
 * no such call or no mapping to spare, or the pages are pinned. The caller owns both ranges. */
size_t mapping_move(uintptr_t from, uintptr_t to, size_t size);

/* Whether that may be done, and takes few system calls for so much: the range has few cuts. */
bool mapping_moves_well(uintptr_t from, size_t size);

/* Forbids every access to the first page of a slice that the caller owns; its contents are gone.
 * False where the kernel would need mappings that we must not make. */
bool mapping_forbid(uintptr_t address);

/* Ends that; false, with nothing changed, where a limit on data stands in the way, or a filter. */
bool mapping_allow(uintptr_t address);

/* Gives pages of the heap back, as memory_purge. Fails for pages of the system's pool, too. */
bool mapping_drop(uintptr_t address, size_t size);

/* The same for a BUSY span's part; whole 2 MiB are kept out of core dumps from then on. */
bool mapping_purge(uintptr_t address, size_t size);

/* Pages of [start, end), which were CLEAN, come into use: core dumps may have them again. */
void mapping_show(uintptr_t start, uintptr_t end);

#endif
