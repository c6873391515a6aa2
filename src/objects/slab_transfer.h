/* slab_transfer.h - the transfer cache: whole lists on their way from thread to thread; shared by
 * the slab*.c files only.
 *
 * Among several threads a list that a full bin gives away is kept as it is, and the next empty
 * bin gets it: neither walks it, and no slab is looked at. For their slabs the blocks are handed
 * out, as those in bins are; for statistics they are cached.
 *
 * The lists of a class in a shard are a stack, linked through the second word of each list's first
 * block, whose upper bits tell how many blocks there are. Blocks of 8 bytes have none.
 *
 * What nobody needed between two visits goes back to the slabs, a little by each call; visits ride
 * on the program's slow events, in turns over all sets. From then on no lists of the class are kept
 * until somebody takes blocks of it, from whatever shard: what comes is only freed. So a class that
 * a program has done with does not keep slabs from others. */
#ifndef PRIM_OBJECTS_SLAB_TRANSFER_H
#define PRIM_OBJECTS_SLAB_TRANSFER_H

#include "objects/slab_set.h"

/* (atomic: hint) Lists of a class were idle, in whatever shard, and nobody took any block of it
 * since: no more are kept. */
extern PRIM_HIDDEN _Atomic bool slab_transfer_is_left[CLASS_COUNT + 1];

/* With the set's lock held: takes the latest list, or some of it where that is much more than
 * wanted; returns how many blocks, 0 if there is none. */
unsigned slab_transfer_take(struct slab_set *set, struct slab_set_rest *rest, unsigned wanted,
                            void **list);

/* With no lock held: the same from another of the first shards. */
unsigned slab_transfer_steal(unsigned shard, unsigned shard_count, unsigned object_class,
                             unsigned wanted, void **list);

/* With no lock held: gives all lists back to their slabs. */
void slab_transfer_end(void);

#endif
