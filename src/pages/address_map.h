/* address_map.h - what lies at an address: one byte for each 16 KiB of address space.
 *
 * The byte is the size class of the blocks in that slice; 0 says "not a block of ours": NULL,
 * foreign, free, the inside of a large block, or not set up yet. free() asks it first, for every
 * pointer, so the map is flat: 2^(47-14) bytes = 8 GiB of address space (16 GiB on aarch64), of
 * which only the pages that describe our heap are ever resident (4 KiB for 64 MiB). It is reserved
 * read-only, which no overcommit policy charges, and made writable where the heap comes to lie.
 *
 * Where that fails, or would take too much of a limit (ulimit -v), the mask stays 0: then every
 * index is 0, every byte reads 0, and each free takes the slow door, which asks the span
 * descriptors instead.
 *
 * Invariant: where the map exists, address_map_class(p) equals the object_class of p's slice
 * descriptor (span.h). A byte is written before a block of its slice is handed out, and only
 * after the last block came back: whoever holds a block has seen its byte. */
#ifndef PRIM_PAGES_ADDRESS_MAP_H
#define PRIM_PAGES_ADDRESS_MAP_H

#include "base/atomics.h"

enum { SLICE_SHIFT = 14, SLICE_SIZE = 1 << SLICE_SHIFT };

/* Both (const after initialisation), which ends before a second thread can call us: */
extern PRIM_HIDDEN _Atomic uint8_t *address_map_bytes; /* (atomic: class) never NULL */
extern PRIM_HIDDEN uintptr_t address_map_mask; /* all bits of an index, or 0 without a map */

/* The same for functions that first have to find out what they are to do, in the slow door. 0 until
 * one of them has, and writes the mask here. (Read without an order, as an atomic load would be an
 * instruction more: a word in one piece, and whoever comes first writes the same.) */
extern PRIM_HIDDEN uintptr_t address_map_later_mask;

PRIM_INLINE unsigned address_map_masked_class(const void *address, uintptr_t mask) {
    return load_relaxed(&address_map_bytes[((uintptr_t)address >> SLICE_SHIFT) & mask]);
}

PRIM_INLINE unsigned address_map_class(const void *address) {
    return address_map_masked_class(address, address_map_mask);
}

/* Reserves the map; called once, at initialisation. */
void address_map_initialise(void);

/* Makes the bytes for a piece of address space writable; false when the system has no memory. */
bool address_map_cover(uintptr_t address, size_t size);

/* How many bytes of the map of this range hold physical pages, in whole pages. */
size_t address_map_resident_bytes(uintptr_t address, size_t size);

/* Gives the map up, for a process that has limited its address space since it started: the map
 * counts there. Only when no other thread can be inside free(); false if there is none to give. */
bool address_map_abandon(void);

/* Sets the byte of one slice. The caller owns the slice. */
PRIM_INLINE void address_map_set(uintptr_t address, unsigned object_class) {
    if (PRIM_LIKELY(address_map_mask)) {
        store_relaxed(&address_map_bytes[address >> SLICE_SHIFT], (uint8_t)object_class);
    }
}

#endif
