/* limits.h - how much the process may take: of memory, and of the kernel's mappings.
 *
 * Nothing is asked of the kernel before somebody needs to know it: most processes are too small to
 * come near any limit. */
#ifndef PRIM_PAGES_LIMITS_H
#define PRIM_PAGES_LIMITS_H

#include "base/compiler.h"

/* How many of the kernel's mappings may be of our making: a quarter of vm.max_map_count, because a
 * process without free mappings can neither map, unmap nor start threads. Read at the first call,
 * which may come under any lock. */
size_t limits_map_budget(void);

#endif
