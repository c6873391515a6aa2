/* watched.h - where the api meets the observers of src/watch.
 *
 * watched.c takes them along; unwatched.c stands in its place, and in that of the other files of
 * this folder that only ask observers, in the minimal library. Which files these are is a list in
 * CMakeLists.txt. */
#ifndef PRIM_API_WATCHED_H
#define PRIM_API_WATCHED_H

#include "objects/arena.h"

/* In the constructor, once options are read, and in the destructor. */
void watched_start(void);
void watched_finish(void);

/* Around fork, outside of the heap's own part. */
void watched_fork_prepare(bool with_locks);
void watched_fork_parent(bool with_locks);
void watched_fork_child(bool with_locks);

/* First-class heaps under checks: where the allocator's block begins that holds the program's; the
 * latter instead of the former; the heap is about to end. */
const void *watched_place(const void *block);
void *watched_show(void *block, size_t size, size_t *shown_size);
void watched_end_heap(struct arena *arena);

#endif
