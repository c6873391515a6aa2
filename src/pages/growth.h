/* growth.h - new address space for the heap: how much, and where. */
#ifndef PRIM_PAGES_GROWTH_H
#define PRIM_PAGES_GROWTH_H

#include "base/atomics.h"

struct growth {
    uintptr_t start; /* 0: there is no room */
    size_t size;     /* in bytes */
    bool is_pool;    /* huge pages of the system's pool */
};

/* With the page heap's lock held: maps room for so many slices or more, that is nobody's yet. */
struct growth growth_map(size_t slice_count);

#endif
