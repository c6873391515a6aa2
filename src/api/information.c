/* information.c - what glibc lets a program ask of its heap: mallinfo and its relatives. */
#include <errno.h>

#include "objects/heap.h"
#include "objects/slab.h"
#include "objects/thread_cache.h"
#include "pages/huge.h"
#include "pages/purge.h"
#include "primalloc.h"
#include "settings/glibc_knobs.h"
#include "watch/report.h"

PRIM_EXPORT int prim_malloc_trim(size_t pad) {
    struct thread_cache *cache = thread_cache_own();
    if (cache) {
        thread_cache_flush(cache);
    }
    slab_trim();
    size_t returned = slab_purge(true);
    returned += purge_all(pad);
    returned += pad < HUGE_SIZE ? huge_return_waste() : 0;
    return returned > 0;
}

PRIM_EXPORT int prim_mallopt(int parameter, int value) {
    heap_ensure(); /* the environment comes first: what is set here overrides it */
    bool is_known = glibc_knobs_mallopt(parameter, value);
    heap_apply_options();
    return is_known;
}

PRIM_EXPORT struct prim_mallinfo2 prim_mallinfo2(void) {
    struct snapshot snapshot;
    snapshot_take(&snapshot, NULL, NULL);
    size_t live = snapshot.live_bytes + snapshot.large_bytes + snapshot.heap_bytes;
    return (struct prim_mallinfo2){
        .arena = snapshot.mapped_bytes,
        .ordblks = snapshot.partial_blocks,
        .smblks = snapshot.cached_blocks,
        .fsmblks = snapshot.cached_bytes,
        .uordblks = live,
        .fordblks = snapshot.mapped_bytes - live,
        .keepcost = snapshot.dirty_bytes,
    };
}

static int as_int(size_t value) {
    return (int)(unsigned)value; /* glibc's mallinfo wraps as well; mallinfo2 is the remedy */
}

PRIM_EXPORT struct prim_mallinfo prim_mallinfo(void) {
    struct prim_mallinfo2 wide = prim_mallinfo2();
    return (struct prim_mallinfo){
        .arena = as_int(wide.arena),
        .ordblks = as_int(wide.ordblks),
        .smblks = as_int(wide.smblks),
        .fsmblks = as_int(wide.fsmblks),
        .uordblks = as_int(wide.uordblks),
        .fordblks = as_int(wide.fordblks),
        .keepcost = as_int(wide.keepcost),
    };
}

static void write_to_stream(const char *text, size_t length, void *context) {
    fwrite(text, 1, length, (FILE *)context);
}

PRIM_EXPORT int prim_malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    if (!report_write(REPORT_XML, write_to_stream, stream)) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

PRIM_EXPORT void prim_malloc_stats(void) {
    prim_stats_print();
}
