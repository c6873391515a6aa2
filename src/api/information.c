/* information.c - what glibc lets a program ask of its heap: mallinfo and its relatives. */
#include "objects/hardened.h"
#include "objects/heap.h"
#include "objects/slab.h"
#include "objects/thread_cache.h"
#include "pages/huge.h"
#include "pages/purge.h"
#include "primalloc.h"
#include "settings/glibc_knobs.h"

PRIM_EXPORT int prim_malloc_trim(size_t pad) {
    if (!thread_cache_enter()) {
        return 0;
    }
    struct thread_cache *cache = thread_cache_own();
    if (cache) {
        thread_cache_flush(cache);
    }
    slab_trim();
    hardened_trim();
    size_t returned = slab_purge(true);
    returned += purge_all(pad);
    returned += pad < HUGE_SIZE ? huge_return_waste() : 0;
    thread_cache_leave();
    return returned > 0;
}

PRIM_EXPORT int prim_mallopt(int parameter, int value) {
    heap_ensure(); /* the environment comes first: what is set here overrides it */
    bool is_known = glibc_knobs_mallopt(parameter, value);
    heap_apply_options();
    return is_known;
}

/* glibc's mallinfo wraps as well; mallinfo2 is the remedy. */
PRIM_EXPORT struct prim_mallinfo prim_mallinfo(void) {
    enum { FIELDS = sizeof(struct prim_mallinfo) / sizeof(int) };
    _Static_assert(sizeof(struct prim_mallinfo2) == FIELDS * sizeof(size_t), "the same fields");
    struct prim_mallinfo2 wide = prim_mallinfo2();
    struct prim_mallinfo narrow;
    for (unsigned i = 0; i < FIELDS; i++) {
        ((int *)&narrow)[i] = (int)(unsigned)((const size_t *)&wide)[i];
    }
    return narrow;
}

PRIM_EXPORT void prim_malloc_stats(void) {
    prim_stats_print();
}
