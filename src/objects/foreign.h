/* foreign.h - pointers that are not blocks of ours.
 *
 * They come from another allocator in the process, or from nowhere: the stack, static memory, the
 * inside of a block. Those of libc's own heap go to libc; none of the others is ever touched: they
 * are counted, and otherwise ignored. */
#ifndef PRIM_OBJECTS_FOREIGN_H
#define PRIM_OBJECTS_FOREIGN_H

#include "base/compiler.h"

void foreign_release(void *pointer);

/* libc's answer for a block of libc's; else NULL, with errno ENOMEM. */
void *foreign_reallocate(void *pointer, size_t size);

/* Of a block of libc's heap; else 0. */
size_t foreign_usable_size(const void *pointer);

/* How many pointers that are nobody's were met so far. */
uint64_t foreign_count(void);

#endif
