/* metadata.h - memory for the library's own structures: bump allocated, never given back.
 *
 * Locks: METADATA. Zeroed on return; NULL when the system has no more. Structures that come and
 * go are kept in free lists by their owners. */
#ifndef PRIM_PAGES_METADATA_H
#define PRIM_PAGES_METADATA_H

#include "base/compiler.h"

enum { METADATA_BLOCK_SIZE = 128 * 1024 };

/* Begins each block that structures are bumped from. */
struct metadata_block {
    struct metadata_block *before;
};

extern PRIM_HIDDEN struct metadata_block *metadata_newest; /* (lock: METADATA) the current one */

void *metadata_allocate(size_t size, size_t alignment);

/* Bytes of address space taken for metadata so far. */
size_t metadata_mapped_bytes(void);

/* How many bytes of it hold physical pages, but for structures above 32 KiB: their owner asks
 * the kernel about them. */
size_t metadata_resident(void);

void metadata_fork_prepare(void);
void metadata_fork_parent(void);
void metadata_fork_child(void);

#endif
