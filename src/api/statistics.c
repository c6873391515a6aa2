/* statistics.c - the program's way to the statistics. */
#include <errno.h>

#include "api/figures.h"
#include "objects/heap.h"
#include "objects/thread_cache.h"
#include "os/memory.h"
#include "os/process.h"
#include "primalloc.h"
#include "watch/report.h"

/* The public structs are the table's, field for field. */
#define FIGURE(name, group, kind, sentence)                                              \
    _Static_assert(offsetof(struct prim_stats, name) == offsetof(struct snapshot, name), \
                   "primalloc.h has the figures of figures.def in its order");
#define CLASS_FIGURE(name, group, kind, sentence)             \
    _Static_assert(offsetof(struct prim_class_stats, name) == \
                       offsetof(struct class_snapshot, name), \
                   "primalloc.h has the figures of figures.def in its order");
#define HEAP_FIGURE(name, group, kind, sentence)                                                   \
    _Static_assert(offsetof(struct prim_heap_stats, name) == offsetof(struct heap_snapshot, name), \
                   "primalloc.h has the figures of figures.def in its order");
#include "watch/figures.def"
#undef FIGURE
#undef CLASS_FIGURE
#undef HEAP_FIGURE
_Static_assert(sizeof(struct prim_stats) == sizeof(struct snapshot), "and no others");
_Static_assert(sizeof(struct prim_class_stats) == sizeof(struct class_snapshot), "and no others");
_Static_assert(sizeof(struct prim_heap_stats) == sizeof(struct heap_snapshot), "and no others");
_Static_assert((int)PRIM_STATS_TEXT == (int)REPORT_TEXT &&
                   (int)PRIM_STATS_JSON == (int)REPORT_JSON &&
                   (int)PRIM_STATS_XML == (int)REPORT_XML &&
                   (int)PRIM_STATS_OPENMETRICS == (int)REPORT_OPENMETRICS,
               "primalloc.h names the internal numbers");

PRIM_EXPORT size_t prim_stats_get(struct prim_stats *stats, size_t size) {
    struct snapshot snapshot;
    size_t known = 0;
    if (!thread_cache_is_inside()) {
        heap_ensure();
        snapshot_take_all(&snapshot, NULL, NULL);
        known = sizeof snapshot;
    }
    figures_copy(stats, size, &snapshot, known);
    return known;
}

PRIM_EXPORT size_t prim_stats_classes(struct prim_class_stats *classes, size_t count, size_t size) {
    struct snapshot snapshot;
    size_t all_size = SNAPSHOT_CLASS_COUNT * sizeof(struct class_snapshot);
    struct class_snapshot *all = thread_cache_is_inside() ? NULL : memory_map(all_size);
    if (!all) {
        return 0;
    }
    heap_ensure();
    snapshot_take(&snapshot, all, NULL);
    for (size_t i = 0; i < count && i < SNAPSHOT_CLASS_COUNT; i++) {
        figures_copy((char *)classes + i * size, size, &all[i], sizeof all[i]);
    }
    memory_unmap(all, all_size);
    return SNAPSHOT_CLASS_COUNT;
}

static void write_output(const char *text, size_t length, void *context) {
    (void)context;
    process_write_output(text, length);
}

static void tell(bool is_done) {
    static const char line[] = "primalloc: no statistics: no memory, or an interrupted call\n";
    if (!is_done) {
        process_write_output(line, sizeof line - 1);
    }
}

PRIM_EXPORT void prim_stats_print(void) {
    tell(report_write(REPORT_TEXT, write_output, NULL));
}

PRIM_EXPORT size_t prim_heap_stats_get(prim_heap_t *heap, struct prim_heap_stats *stats,
                                       size_t size) {
    struct heap_row row;
    size_t known = 0;
    if (!thread_cache_is_inside()) {
        row = heap_row_of((struct arena *)heap);
        known = sizeof row.figures;
    }
    figures_copy(stats, size, &row.figures, known);
    return known;
}

PRIM_EXPORT void prim_heap_stats_print(prim_heap_t *heap) {
    tell(report_write_heap((struct arena *)heap, write_output, NULL));
}

PRIM_EXPORT int prim_stats_write(enum prim_stats_form form, prim_output *output, void *context) {
    if ((unsigned)form >= REPORT_FORM_COUNT) {
        errno = EINVAL;
        return -1;
    }
    if (!report_write((enum report_form)form, output, context)) {
        errno = thread_cache_is_inside() ? EAGAIN : ENOMEM;
        return -1;
    }
    return 0;
}

PRIM_EXPORT struct prim_mallinfo2 prim_mallinfo2(void) {
    struct snapshot snapshot;
    if (thread_cache_is_inside()) {
        return (struct prim_mallinfo2){0};
    }
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

static void write_to_stream(const char *text, size_t length, void *context) {
    fwrite(text, 1, length, (FILE *)context);
}

PRIM_EXPORT int prim_malloc_info(int form, FILE *stream) {
    if (form != 0) {
        errno = EINVAL;
        return -1;
    }
    return prim_stats_write(PRIM_STATS_XML, write_to_stream, stream);
}
