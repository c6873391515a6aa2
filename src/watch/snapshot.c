/* snapshot.c - see snapshot.h. */
#include "watch/snapshot.h"

#include <string.h>

#include "base/bits.h"
#include "objects/call_counts.h"
#include "objects/double_free.h"
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
#include "pages/returned.h"
#include "settings/options.h"
#include "watch/report.h"

/* All texts in one piece, so that a row needs no pointer and no room that it does not fill. */
struct texts {
#define TEXTS(prefix, name, sentence)   \
    char prefix##_##name[sizeof #name]; \
    char prefix##_##name##_sentence[sizeof sentence];
#define FIGURE(name, group, kind, sentence) TEXTS(all, name, sentence)
#define CLASS_FIGURE(name, group, kind, sentence) TEXTS(class, name, sentence)
#define HEAP_FIGURE(name, group, kind, sentence) TEXTS(heap, name, sentence)
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
#undef HEAP_FIGURE
};

static const struct texts texts = {
#define FIGURE(name, group, kind, sentence) #name, sentence,
#define CLASS_FIGURE(name, group, kind, sentence) #name, sentence,
#define HEAP_FIGURE(name, group, kind, sentence) #name, sentence,
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
#undef HEAP_FIGURE
};

static const struct row {
    uint16_t name; /* where it is in the texts, the sentence behind it */
    uint8_t group;
    uint8_t kind;
} table[] = {
#define ROW(prefix, name, group, kind) \
    {offsetof(struct texts, prefix##_##name), GROUP_##group, KIND_##kind},
#define FIGURE(name, group, kind, sentence) ROW(all, name, group, kind)
#define CLASS_FIGURE(name, group, kind, sentence) ROW(class, name, group, kind)
#define HEAP_FIGURE(name, group, kind, sentence) ROW(heap, name, group, kind)
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
#undef HEAP_FIGURE
};

PRIM_COLD struct figure figure_at(unsigned index) {
    const struct row *row = &table[index];
    const char *name = (const char *)&texts + row->name;
    return (struct figure){name, name + strlen(name) + 1, (enum figure_group)row->group,
                           (enum figure_kind)row->kind};
}

static void take_calls(struct class_snapshot *class, unsigned object_class) {
    struct call_counts calls = call_counts_of(object_class);
    class->allocations = calls.allocations;
    class->frees = calls.frees;
    class->requested_bytes = calls.requested_bytes;
    class->peak_blocks = calls.peak;
}

/* Threads may have moved blocks between the two looks: no class caches more than it handed out. */
static struct class_snapshot take_class(unsigned object_class, size_t cached,
                                        size_t *untouched_bytes) {
    size_t size = size_classes[object_class].size;
    struct slab_totals slabs = {0};
    slab_totals_add_class(&slabs, object_class);
    size_t singles = slab_single_count(object_class);
    size_t used = slabs.used_blocks + singles;
    cached = bits_min(cached + slabs.listed_blocks, used);
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
        .peak_bytes = (uint64_t)slab_peak_count(object_class) * size_classes[object_class].slices *
                      SLICE_SIZE,
        .slabs_made = slab_total_count(object_class),
    };
    take_calls(&class, object_class);
    return class;
}

static void add_class(struct snapshot *snapshot, unsigned object_class,
                      const struct class_snapshot *class) {
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
    snapshot->slabs_made += class->slabs_made;
    snapshot->slabs_peak += slab_peak_count(object_class);
}

static void take_classes(struct snapshot *snapshot, struct class_snapshot *classes) {
    struct thread_cache_totals caches = {0};
    thread_cache_totals_add(&caches);
    snapshot->threads = caches.cache_count;
    snapshot->threads_peak = caches.cache_peak;
    snapshot->threads_seen = caches.cache_total;
    snapshot->slow_events = caches.slow_events;
    for (unsigned object_class = 1; object_class <= CLASS_COUNT; object_class++) {
        size_t untouched_bytes = 0;
        struct class_snapshot class =
            take_class(object_class, caches.blocks[object_class], &untouched_bytes);
        add_class(snapshot, object_class, &class);
        snapshot->untouched_bytes += untouched_bytes;
        if (classes) {
            classes[object_class - 1] = class;
        }
    }
}

static void take_heaps(struct snapshot *snapshot, struct heap_rows *rows) {
    struct heap_rows sums = {0};
    rows = rows ? rows : &sums;
    heap_rows_take(rows);
    size_t space = load_relaxed(&arena_space_bytes);
    snapshot->heaps = rows->heap_count;
    snapshot->heap_blocks = rows->live_blocks;
    snapshot->heap_bytes = bits_min(rows->live_bytes, space);
    snapshot->heap_free_bytes = space - snapshot->heap_bytes;
    snapshot->untouched_bytes += bits_min(rows->untouched_bytes, snapshot->heap_free_bytes);
    snapshot->lent_bytes = rows->lent_bytes;
    struct call_counts calls = call_counts_of(CLASS_ARENA);
    snapshot->heap_allocations = calls.allocations;
    snapshot->heap_frees = calls.frees;
    snapshot->heap_requested_bytes = calls.requested_bytes;
    snapshot->allocations += calls.allocations;
    snapshot->frees += calls.frees;
    snapshot->requested_bytes += calls.requested_bytes;
}

/* What of the heap's address space is neither free nor in slabs nor in areas of heaps is in large
 * blocks, or on its way between these. */
static void take_extents(struct snapshot *snapshot, struct class_snapshot *classes) {
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    snapshot->mapped_bytes = load_relaxed(&page_heap.mapped_slices) * SLICE_SIZE;
    snapshot->dirty_bytes = load_relaxed(&page_heap.dirty.slice_count) * SLICE_SIZE;
    snapshot->clean_bytes = load_relaxed(&page_heap.clean.slice_count) * SLICE_SIZE;
    snapshot->spans = page_heap.span_count;
    snapshot->spans_peak = page_heap.span_peak;
    snapshot->spans_taken = page_heap.span_total;
    snapshot->searches = page_heap.search_count;
    limits_note_resident(page_heap_resident_bytes()); /* structures may have grown since */
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    uint64_t others = snapshot->live_bytes + snapshot->cached_bytes + snapshot->partial_bytes +
                      snapshot->uncarved_bytes + snapshot->asleep_bytes + snapshot->dirty_bytes +
                      snapshot->clean_bytes + snapshot->heap_bytes + snapshot->heap_free_bytes;
    snapshot->mapped_bytes = bits_max(snapshot->mapped_bytes, others);
    snapshot->large_bytes = snapshot->mapped_bytes - others;
    snapshot->large_blocks = large_count();
    struct class_snapshot large = {.live_blocks = snapshot->large_blocks,
                                   .live_bytes = snapshot->large_bytes,
                                   .peak_bytes = large_peak_bytes(),
                                   .slabs_made = large_total_count()};
    take_calls(&large, CLASS_LARGE);
    snapshot->allocations += large.allocations;
    snapshot->frees += large.frees;
    snapshot->requested_bytes += large.requested_bytes;
    if (classes) {
        classes[CLASS_COUNT] = large;
    }
}

PRIM_COLD void snapshot_take(struct snapshot *snapshot, struct class_snapshot *classes,
                             struct heap_rows *heaps) {
    memset(snapshot, 0, sizeof *snapshot);
    thread_cache_nest();
    take_classes(snapshot, classes);
    take_heaps(snapshot, heaps);
    take_extents(snapshot, classes);
    snapshot->metadata_bytes = metadata_mapped_bytes();
    thread_cache_leave();
    snapshot->held_bytes =
        snapshot->mapped_bytes - snapshot->clean_bytes + snapshot->metadata_bytes;
    snapshot->held_peak_bytes = bits_max(load_relaxed(&limits.held_peak), snapshot->held_bytes);
    snapshot->huge_bytes = load_relaxed(&huge_asked_bytes);
    snapshot->pool_bytes = load_relaxed(&huge_pool_bytes);
    snapshot->foreign_pointers = foreign_count();
    snapshot->double_frees = double_free_count();
    snapshot->needed_again_bytes = load_relaxed(&returned_needed_bytes);
    snapshot->map_calls = load_relaxed(&memory_counts.map_calls);
    snapshot->unmap_calls = load_relaxed(&memory_counts.unmap_calls);
    snapshot->purge_calls = load_relaxed(&memory_counts.purge_calls);
    snapshot->purged_bytes = load_relaxed(&memory_counts.purged_bytes);
    snapshot->move_calls = load_relaxed(&memory_counts.move_calls);
    snapshot->moved_bytes = load_relaxed(&memory_counts.moved_bytes);
    snapshot->reallocations = call_counts_reallocations();
}

PRIM_COLD void snapshot_take_all(struct snapshot *snapshot, struct class_snapshot *classes,
                                 struct heap_rows *heaps) {
    snapshot_take(snapshot, classes, heaps);
    thread_cache_nest();
    snapshot->metadata_resident_bytes = metadata_resident() + span_resident_bytes();
    snapshot->huge_unused_bytes = huge_waste_bytes();
    thread_cache_leave();
    snapshot->resident_bytes = snapshot->mapped_bytes - snapshot->clean_bytes -
                               snapshot->asleep_bytes - snapshot->untouched_bytes +
                               snapshot->metadata_resident_bytes;
    struct usage usage = usage_now();
    _Static_assert(offsetof(struct snapshot, virtual_bytes) -
                           offsetof(struct snapshot, elapsed_ms) ==
                       offsetof(struct usage, virtual_bytes),
                   "the process's figures are those of struct usage, in its order");
    memcpy(&snapshot->elapsed_ms, &usage, sizeof usage);
}

static void print_counted_calls(struct print *out) {
    uint64_t allocations = 0;
    uint64_t frees = 0;
    for (unsigned object_class = 1; object_class <= CLASS_ARENA; object_class++) {
        struct call_counts calls = call_counts_of(object_class);
        allocations += calls.allocations;
        frees += calls.frees;
    }
    print_format(out, "allocations=%lu frees=%lu reallocations=%lu ", allocations, frees,
                 call_counts_reallocations());
}

PRIM_COLD void snapshot_print_calls(struct print *out) {
    print_format(out, "primalloc pid=%u program=", process_id());
    report_print_name(out, process_program_name());
    print_text(out, " ");
    if (options.stats) {
        print_counted_calls(out);
    }
    print_format(out, "foreign=%lu\n", foreign_count());
}
