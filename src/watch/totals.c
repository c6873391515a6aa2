/* totals.c - see totals.h. */
#include "watch/totals.h"

#include "objects/foreign.h"
#include "objects/slab.h"
#include "objects/thread_cache.h"
#include "os/process.h"
#include "pages/huge.h"
#include "pages/metadata.h"
#include "pages/page_heap.h"

struct totals totals_take(void) {
    struct slab_totals slabs = {0};
    struct thread_cache_totals caches = {0};
    slab_totals_add(&slabs);
    thread_cache_totals_add(&caches);
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    size_t mapped = page_heap.mapped_slices * SLICE_SIZE;
    size_t free_dirty = load_relaxed(&page_heap.dirty.slice_count) * SLICE_SIZE;
    size_t free_clean = load_relaxed(&page_heap.clean.slice_count) * SLICE_SIZE;
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    size_t other = free_dirty + free_clean + slabs.slab_bytes;
    return (struct totals){
        .mapped = mapped,
        .free_dirty = free_dirty,
        .free_clean = free_clean,
        .slab = slabs.slab_bytes,
        .slab_free = slabs.free_bytes,
        .slab_asleep = slabs.asleep_bytes,
        .slab_blocks = slabs.free_blocks,
        .large = mapped > other ? mapped - other : 0,
        .huge = load_relaxed(&huge_asked_bytes),
        .huge_waste = huge_waste_bytes(),
        .huge_pool = load_relaxed(&huge_pool_bytes),
        .metadata = metadata_mapped_bytes(),
        .threads = caches.cache_count,
        .allocations = caches.allocations,
        .frees = caches.frees,
        .reallocations = caches.reallocations,
        .foreign = foreign_count(),
    };
}

static void print_pair(struct print *out, const char *name, uint64_t value) {
    print_text(out, name);
    print_decimal(out, value);
}

void totals_print_calls(struct print *out) {
    struct totals totals = totals_take();
    print_pair(out, "primalloc pid=", process_id());
    print_text(out, " program=");
    print_text(out, process_program_name());
    print_pair(out, " allocations=", totals.allocations);
    print_pair(out, " frees=", totals.frees);
    print_pair(out, " reallocations=", totals.reallocations);
    print_pair(out, " foreign=", totals.foreign);
    print_text(out, "\n");
}
