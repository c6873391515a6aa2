/* libc_heap.h - blocks of the heap that libc keeps for itself.
 *
 * Whoever is bound to libc's malloc in spite of us (RTLD_DEEPBIND, what was allocated before we
 * were loaded) has blocks of glibc's, and may hand them to somebody who frees them here.
 * They are told by what glibc writes before each: its size and three flags, which say whether it
 * lies in the heap that brk made, in a heap of an arena or in a mapping of its own. What is read is
 * asked for first, and the place must agree with the flags: a pointer to anything else would have
 * to look like that by chance.
 *
 * Other libcs have no such blocks, and neither has a fully static program. A process that is
 * confined is not asked for anything: there every pointer is somebody else's. */
#ifndef PRIM_OS_LIBC_HEAP_H
#define PRIM_OS_LIBC_HEAP_H

#include "base/compiler.h"

/* Bytes that the program may use of it; 0 if it is no block of libc's heap. */
size_t libc_heap_usable_size(const void *pointer);

/* Of such blocks only. */
void libc_heap_release(void *block);
void *libc_heap_reallocate(void *block, size_t size);

#endif
