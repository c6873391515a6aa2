/* double_free.h - blocks that come back to their slab twice.
 *
 * The fast paths do not look. A block that was freed twice makes a circle of the list that it is
 * in, or is in two lists; then its slab gets back more than it gave. slab_release notices either.
 * From then on, for some calls, blocks are taken back with care: one by one, each once. */
#ifndef PRIM_OBJECTS_DOUBLE_FREE_H
#define PRIM_OBJECTS_DOUBLE_FREE_H

#include "objects/slab_set.h"

/* Turns a list round, so that the blocks touched last, which are still in the processor's cache,
 * come first. Cuts a circle open, so that the list holds each of its blocks once and ends with
 * NULL; tells of it and returns whether there was one. */
bool double_free_turn(void **list);

/* With the set's lock held: takes so many blocks of one slice, linked from the first on, back to
 * their slab in such a way that its list holds each once. What the list has lost is lost. */
void double_free_take(struct slab_set *set, struct span *slab, void *first, unsigned count);

/* Whether the blocks of this call are to be taken with care. */
bool double_free_is_likely(void);

/* Counts it and complains. Called with no lock held. */
void double_free_note(const void *block);

/* How many were noticed so far. */
uint64_t double_free_count(void);

#endif
