/* snapshot.c - see snapshot.h. */
#include "watch/snapshot.h"

#include <string.h>

#include "base/bits.h"
#include "objects/call_counts.h"
#include "objects/foreign.h"
#include "objects/large.h"
#include "objects/slab.h"
#include "objects/thread_cache.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/usage.h"
#include "pages/huge.h"
#include "pages/limits.h"
#include "pages/metadata.h"
#include "pages/page_heap.h"

#define ROW(name, group, kind, sentence) {#name, sentence, GROUP_##group, KIND_##kind},

const struct figure figures[FIGURE_COUNT] = {
#define FIGURE ROW
#define CLASS_FIGURE(name, group, kind, sentence)
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
};

const struct figure class_figures[CLASS_FIGURE_COUNT] = {
#define FIGURE(name, group, kind, sentence)
#define CLASS_FIGURE ROW
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
};

static void take_calls(struct class_snapshot *class, unsigned object_class) {
    struct call_counts calls = call_counts_of(object_class);
    class->allocations = calls.allocations;
    class->frees = calls.frees;
    class->requested_bytes = calls.requested_bytes;
}

/* Threads may have moved blocks between the two looks: no class caches more than it handed out. */
static struct class_snapshot take_class(unsigned object_class, size_t cached,
                                        size_t *untouched_bytes) {
    size_t size = size_classes[object_class].size;
    struct slab_totals slabs = {0};
    slab_totals_add_class(&slabs, object_class);
    size_t singles = slab_single_count(object_class);
    size_t used = slabs.used_blocks + singles;
    cached = bits_min(cached, used);
    size_t asleep = bits_min(slabs.asleep_bytes, slabs.free_bytes);
    size_t uncarved = bits_min(slabs.uncarved_bytes, slabs.free_bytes - asleep);
    *untouched_bytes += bits_min(slabs.untouched_bytes, uncarved);
    struct class_snapshot class = {
        .block_bytes = size,
        .live_blocks = used - cached,
        .live_bytes = (used - cached) * size,
        .cached_blocks = cached,
        .cached_bytes = cached * size,
        .partial_blocks = slabs.free_blocks,
        .partial_bytes = slabs.free_bytes - asleep - uncarved,
        .uncarved_bytes = uncarved,
        .asleep_bytes = asleep,
        .slabs = slabs.slab_count + singles,
    };
    take_calls(&class, object_class);
    return class;
}

static void add_class(struct snapshot *snapshot, const struct class_snapshot *class) {
    snapshot->live_bytes += class->live_bytes;
    snapshot->cached_bytes += class->cached_bytes;
    snapshot->partial_bytes += class->partial_bytes;
    snapshot->uncarved_bytes += class->uncarved_bytes;
    snapshot->asleep_bytes += class->asleep_bytes;
    snapshot->live_blocks += class->live_blocks;
    snapshot->cached_blocks += class->cached_blocks;
    snapshot->partial_blocks += class->partial_blocks;
    snapshot->slabs += class->slabs;
    snapshot->allocations += class->allocations;
    snapshot->frees += class->frees;
    snapshot->requested_bytes += class->requested_bytes;
}

static void take_classes(struct snapshot *snapshot, struct class_snapshot *classes) {
    struct thread_cache_totals caches = {0};
    thread_cache_totals_add(&caches);
    snapshot->threads = caches.cache_count;
    snapshot->slow_events = caches.slow_events;
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        size_t untouched_bytes = 0;
        struct class_snapshot class =
            take_class(object_class, caches.blocks[object_class], &untouched_bytes);
        add_class(snapshot, &class);
        snapshot->untouched_bytes += untouched_bytes;
        if (classes) {
            classes[object_class - 1] = class;
        }
    }
}

/* What of the heap's address space is neither free nor in slabs is in large blocks, or on its way
 * between the two. */
static void take_extents(struct snapshot *snapshot, struct class_snapshot *classes) {
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    snapshot->mapped_bytes = load_relaxed(&page_heap.mapped_slices) * SLICE_SIZE;
    snapshot->dirty_bytes = load_relaxed(&page_heap.dirty.slice_count) * SLICE_SIZE;
    snapshot->clean_bytes = load_relaxed(&page_heap.clean.slice_count) * SLICE_SIZE;
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    uint64_t others = snapshot->live_bytes + snapshot->cached_bytes + snapshot->partial_bytes +
                      snapshot->uncarved_bytes + snapshot->asleep_bytes + snapshot->dirty_bytes +
                      snapshot->clean_bytes;
    snapshot->mapped_bytes = bits_max(snapshot->mapped_bytes, others);
    snapshot->large_bytes = snapshot->mapped_bytes - others;
    snapshot->large_blocks = large_count();
    struct class_snapshot large = {.live_blocks = snapshot->large_blocks,
                                   .live_bytes = snapshot->large_bytes};
    take_calls(&large, CLASS_LARGE);
    snapshot->allocations += large.allocations;
    snapshot->frees += large.frees;
    snapshot->requested_bytes += large.requested_bytes;
    if (classes) {
        classes[CLASS_COUNT] = large;
    }
}

static void take_process(struct snapshot *snapshot) {
    struct usage usage = usage_now();
    snapshot->elapsed_ms = usage.elapsed_ms;
    snapshot->user_ms = usage.user_ms;
    snapshot->system_ms = usage.system_ms;
    snapshot->minor_faults = usage.minor_faults;
    snapshot->major_faults = usage.major_faults;
    snapshot->rss_bytes = usage.rss_bytes;
    snapshot->rss_peak_bytes = usage.rss_peak_bytes;
    snapshot->virtual_bytes = usage.virtual_bytes;
}

void snapshot_take(struct snapshot *snapshot, struct class_snapshot *classes) {
    memset(snapshot, 0, sizeof *snapshot);
    take_classes(snapshot, classes);
    take_extents(snapshot, classes);
    snapshot->metadata_bytes = metadata_mapped_bytes();
    snapshot->metadata_resident_bytes = metadata_resident() + span_resident_bytes();
    snapshot->held_peak_bytes = load_relaxed(&limits.held_peak);
    snapshot->huge_bytes = load_relaxed(&huge_asked_bytes);
    snapshot->huge_unused_bytes = huge_waste_bytes();
    snapshot->resident_bytes = snapshot->mapped_bytes - snapshot->clean_bytes -
                               snapshot->asleep_bytes - snapshot->untouched_bytes +
                               snapshot->metadata_resident_bytes;
    snapshot->pool_bytes = load_relaxed(&huge_pool_bytes);
    snapshot->foreign_pointers = foreign_count();
    snapshot->map_calls = load_relaxed(&memory_counts.map_calls);
    snapshot->unmap_calls = load_relaxed(&memory_counts.unmap_calls);
    snapshot->purge_calls = load_relaxed(&memory_counts.purge_calls);
    snapshot->purged_bytes = load_relaxed(&memory_counts.purged_bytes);
    snapshot->move_calls = load_relaxed(&memory_counts.move_calls);
    snapshot->moved_bytes = load_relaxed(&memory_counts.moved_bytes);
    snapshot->reallocations = call_counts_reallocations();
    take_process(snapshot);
}

static void print_pair(struct print *out, const char *name, uint64_t value) {
    print_text(out, name);
    print_decimal(out, value);
}

void snapshot_print_calls(struct print *out) {
    uint64_t allocations = 0;
    uint64_t frees = 0;
    for (unsigned object_class = 1; object_class <= CLASS_LARGE; object_class++) {
        struct call_counts calls = call_counts_of(object_class);
        allocations += calls.allocations;
        frees += calls.frees;
    }
    print_pair(out, "primalloc pid=", process_id());
    print_text(out, " program=");
    print_text(out, process_program_name());
    print_pair(out, " allocations=", allocations);
    print_pair(out, " frees=", frees);
    print_pair(out, " reallocations=", call_counts_reallocations());
    print_pair(out, " foreign=", foreign_count());
    print_text(out, "\n");
}
