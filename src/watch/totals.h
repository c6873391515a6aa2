/* totals.h - where the memory is, in bytes, as one snapshot.
 *
 * Exact when no thread is inside the library; else each figure is true of some recent moment. */
#ifndef PRIM_WATCH_TOTALS_H
#define PRIM_WATCH_TOTALS_H

#include "base/print.h"

struct totals {
    size_t mapped;      /* address space of the heap: all below but metadata */
    size_t free_dirty;  /* free extents that may be resident */
    size_t free_clean;  /* free extents without physical pages */
    size_t slab;        /* in slabs */
    size_t slab_free;   /* of that not handed out to threads */
    size_t slab_asleep; /* of that given back to the system: whole pages, until they are wanted */
    size_t slab_blocks; /* free blocks in slabs */
    size_t large;       /* in large blocks */
    size_t huge;        /* huge pages were asked for there (thp) */
    size_t huge_waste;  /* of that free, but perhaps resident with what is in use around it */
    size_t huge_pool;   /* huge pages of the system's pool (large_os_pages) */
    size_t metadata;    /* the library's own structures */
    size_t threads;     /* that have a cache */
    /* Calls counted with stats=full. A reallocation that moves a block of at most 256 KiB also
     * counts as the allocation and the free that it consists of. */
    uint64_t allocations;
    uint64_t frees;
    uint64_t reallocations;
    uint64_t foreign; /* pointers given to free or realloc that were not ours */
};

struct totals totals_take(void);

/* One line: "primalloc pid=1 program=x allocations=.. frees=.. reallocations=..". */
void totals_print_calls(struct print *out);

#endif
