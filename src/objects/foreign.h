/* foreign.h - pointers that are not blocks of ours.
 *
 * They come from another allocator in the process, or from nowhere: the stack, static memory, the
 * inside of a block. None is ever touched: they are counted, and otherwise ignored. */
#ifndef PRIM_OBJECTS_FOREIGN_H
#define PRIM_OBJECTS_FOREIGN_H

#include "base/compiler.h"

void foreign_release(void *pointer);

/* NULL, with errno ENOMEM. */
void *foreign_reallocate(void *pointer, size_t size);

/* How many foreign pointers were met so far. */
uint64_t foreign_count(void);

#endif
