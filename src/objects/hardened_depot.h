/* hardened_depot.h - what threads of a hardened heap exchange: magazines, arrays of free blocks.
 *
 * A thread has up to three magazines for each class (hardened_bin.h). What it has no use for waits
 * beside the slabs that its last block came from, until a thread of their shard runs dry: one lock
 * for many blocks, whose slabs nobody touches. With more than a share of these slabs in magazines,
 * blocks go back to them.
 *
 * Locks: HARDENED, that of the set of slabs. A magazine belongs to its thread, or is in a set. */
#ifndef PRIM_OBJECTS_HARDENED_DEPOT_H
#define PRIM_OBJECTS_HARDENED_DEPOT_H

#include "base/compiler.h"

enum { MAGAZINE_ROOM = 125 }; /* at most: with all else, 1 KiB */

struct magazine {
    struct magazine *next; /* (lock: HARDENED) in a list of a set's */
    uint32_t count;        /* (owner) of blocks; while it is loaded the bin knows */
    uint32_t room;         /* (const) blocks that it may hold */
    void *blocks[];        /* (owner) from 1 on */
};

/* An empty one; NULL without memory. */
struct magazine *hardened_depot_make(uint32_t room);

/* A magazine with blocks of the class, in exchange for an empty one or NULL; or NULL. */
struct magazine *hardened_depot_take(unsigned object_class, struct magazine *empty);

/* Takes a magazine with blocks for an empty one; NULL where there is no memory for that. */
struct magazine *hardened_depot_give(struct magazine *full);

/* The set's go back to their slabs. */
struct hardened_set;
void hardened_depot_trim(struct hardened_set *set);

#endif
