/* information.c - what glibc lets a program ask of its heap: mallinfo and its relatives. */
#include <errno.h>

#include "base/bits.h"
#include "objects/heap.h"
#include "objects/slab.h"
#include "objects/thread_cache.h"
#include "os/process.h"
#include "pages/huge.h"
#include "pages/purge.h"
#include "primalloc.h"
#include "settings/glibc_knobs.h"
#include "watch/totals.h"

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
    struct totals totals = totals_take();
    size_t free_extents = totals.free_dirty + totals.free_clean;
    return (struct prim_mallinfo2){
        .arena = totals.mapped,
        .ordblks = totals.slab_blocks,
        .uordblks = totals.mapped - free_extents - bits_min(totals.slab_free, totals.slab),
        .fordblks = free_extents + totals.slab_free,
        .keepcost = totals.free_dirty,
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
        .uordblks = as_int(wide.uordblks),
        .fordblks = as_int(wide.fordblks),
        .keepcost = as_int(wide.keepcost),
    };
}

PRIM_EXPORT int prim_malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    struct totals totals = totals_take();
    fprintf(stream,
            "<malloc version=\"primalloc-1\">\n"
            "<total type=\"slab\" size=\"%zu\"/>\n"
            "<total type=\"slab-free\" count=\"%zu\" size=\"%zu\"/>\n"
            "<total type=\"slab-asleep\" size=\"%zu\"/>\n"
            "<total type=\"large\" size=\"%zu\"/>\n"
            "<total type=\"extent-dirty\" size=\"%zu\"/>\n"
            "<total type=\"extent-clean\" size=\"%zu\"/>\n"
            "<total type=\"huge\" size=\"%zu\"/>\n"
            "<total type=\"huge-waste\" size=\"%zu\"/>\n"
            "<total type=\"huge-pool\" size=\"%zu\"/>\n"
            "<total type=\"metadata\" size=\"%zu\"/>\n"
            "<system type=\"current\" size=\"%zu\"/>\n"
            "<threads count=\"%zu\"/>\n"
            "</malloc>\n",
            totals.slab, totals.slab_blocks, totals.slab_free, totals.slab_asleep, totals.large,
            totals.free_dirty, totals.free_clean, totals.huge, totals.huge_waste, totals.huge_pool,
            totals.metadata, totals.mapped, totals.threads);
    return 0;
}

static void print_row(struct print *out, const char *name, size_t bytes) {
    size_t start = out->length;
    print_text(out, "  ");
    print_text(out, name);
    while (out->length < start + 36) {
        print_text(out, " ");
    }
    print_decimal(out, bytes);
    print_text(out, "\n");
}

PRIM_EXPORT void prim_malloc_stats(void) {
    char buffer[1024];
    struct print out = print_to(buffer, sizeof buffer);
    struct totals totals = totals_take();
    print_text(&out, "primalloc " PRIM_VERSION_STRING ", bytes:\n");
    print_row(&out, "address space of the heap", totals.mapped);
    print_row(&out, "in slabs", totals.slab);
    print_row(&out, "of that free", totals.slab_free);
    print_row(&out, "of that not resident", totals.slab_asleep);
    print_row(&out, "in large blocks", totals.large);
    print_row(&out, "in free extents, resident", totals.free_dirty);
    print_row(&out, "in free extents, not resident", totals.free_clean);
    print_row(&out, "where huge pages were asked for", totals.huge);
    print_row(&out, "of that free beside used memory", totals.huge_waste);
    print_row(&out, "huge pages of the system's pool", totals.huge_pool);
    print_row(&out, "metadata", totals.metadata);
    print_row(&out, "threads with a cache", totals.threads);
    process_write_output(buffer, out.length);
}
