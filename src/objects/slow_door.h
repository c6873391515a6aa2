/* slow_door.h - everything that malloc and free do outside their fast paths.
 *
 * Errors: functions that allocate return NULL and set errno to ENOMEM; those that free keep errno.
 * All are safe from any thread, in a fork's child, before main and after exit handlers ran. */
#ifndef PRIM_OBJECTS_SLOW_DOOR_H
#define PRIM_OBJECTS_SLOW_DOOR_H

#include "base/compiler.h"

/* Any size, any state of the thread; the first tries the bins of medium sizes before. */
void *allocate_slow(size_t size);
void *allocate_slower(size_t size);

/* A block for a request of this size, of a medium class that has room for more, if there is memory
 * for that. Who looks at calls sees the request. */
void *allocate_with_room(size_t size, size_t room);

/* A block of zeros, aligned as allocate_aligned's if alignment is not 0. Zeros of fresh pages are
 * not written once more, but in small blocks: others stay untouched. */
void *allocate_zeroed(size_t size, size_t alignment);

/* A block whose address is a multiple of alignment, which must be a power of two. */
void *allocate_aligned(size_t size, size_t alignment);

/* Any pointer: a block, NULL, or one that is not ours. The caller is where the program's call
 * returns to. */
void release_slow(void *block);
void release_slower(void *block, const void *caller);

/* What realloc has moved a block of ours from: where no bin takes it at once, and where the thread
 * shall not keep it for itself. */
void release_moved(void *block);
void release_past_bins(void *block);

/* Memory is out for so many bytes: gives up what the thread only keeps; true if another try may
 * succeed. Nothing is given up for what no address space has. */
bool make_room(size_t size);

/* The end of a call for which there is no memory: tells of it, sets errno to ENOMEM; NULL. */
void *fail_allocation(size_t size);

/* Who looks at every call sees a block that is to be handed out for a request of this size. */
void see_allocation(void *block, size_t size, size_t filled_size);

/* C's realloc, but for size 0: the smallest block. A block that does not move keeps its place. */
void *reallocate(void *block, size_t size);

/* The rest of it, for a block that is to move to the target: that one, with the old one's contents.
 * Where there is no memory for a target, who wants less keeps the block. */
void *move_to(void *target, void *block, size_t old_size, size_t size);

/* Makes the block at least size bytes where it is; false if it must move. Never shrinks it. */
bool expand(void *block, size_t size);

/* The bytes of the block that a request of this size comes to; an impossible size itself. */
size_t good_size(size_t size);

/* The bytes that may be used in a block; 0 for NULL and for pointers that are not ours. */
size_t usable_size(const void *block);

#endif
