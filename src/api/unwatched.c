/* unwatched.c - the minimal library's answers to whoever asks for observers: it has none.
 *
 * All names are there, so that a program that is linked with the full library starts on this one.
 * What is asked of the page heap is answered as far as that knows; profiles, leaks, checks and
 * statistics by class are not there, and say so by their error. */
#include <errno.h>
#include <string.h>

#include "api/figures.h"
#include "api/standard.h"
#include "api/watched.h"
#include "base/bits.h"
#include "base/print.h"
#include "objects/arena.h"
#include "objects/heap.h"
#include "objects/thread_cache.h"
#include "objects/watcher.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/process.h"
#include "pages/limits.h"
#include "pages/metadata.h"
#include "pages/page_heap.h"
#include "pages/returned.h"
#include "settings/options.h"

void watchers_begin(void) {}

/* Whoever asks for an observer in vain is told so. */
static void tell(bool is_asked, const char *variable) {
    if (is_asked) {
        process_complain(variable, " does nothing in the minimal library");
    }
}

void watched_start(void) {
    tell(options.check, "PRIMALLOC_CHECK (MALLOC_CHECK_)");
    tell(options.guarded, "PRIMALLOC_GUARDED");
    tell(options.profile, "PRIMALLOC_PROFILE");
    tell(options.leak_check, "PRIMALLOC_LEAK_CHECK");
    tell(options.stats_output, "PRIMALLOC_STATS_OUTPUT");
}

void watched_fork_prepare(bool with_locks) {
    (void)with_locks;
}

void watched_fork_parent(bool with_locks) {
    (void)with_locks;
}

void watched_fork_child(bool with_locks) {
    (void)with_locks;
}

const void *watched_place(const void *block) {
    return block;
}

void *watched_show(void *block, size_t size, size_t *shown_size) {
    *shown_size = size;
    return block;
}

void watched_end_heap(struct arena *arena) {
    (void)arena;
}

void watched_finish(void) {
    if (option_now(show_stats)) {
        prim_stats_print();
    }
}

/* What the page heap knows, without a look at slabs and caches: spans count as in use. False, and
 * all zero, in a signal handler that interrupted us. */
static bool take_figures(struct prim_stats *stats) {
    memset(stats, 0, sizeof *stats);
    if (!thread_cache_enter()) {
        return false;
    }
    heap_ensure();
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    stats->mapped_bytes = load_relaxed(&page_heap.mapped_slices) * SLICE_SIZE;
    stats->dirty_bytes = load_relaxed(&page_heap.dirty.slice_count) * SLICE_SIZE;
    stats->clean_bytes = load_relaxed(&page_heap.clean.slice_count) * SLICE_SIZE;
    limits_note_resident(page_heap_resident_bytes()); /* structures may have grown since */
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    thread_cache_leave();
    stats->metadata_bytes = metadata_mapped_bytes();
    stats->held_peak_bytes = load_relaxed(&limits.held_peak);
    stats->map_calls = load_relaxed(&memory_counts.map_calls);
    stats->unmap_calls = load_relaxed(&memory_counts.unmap_calls);
    stats->purge_calls = load_relaxed(&memory_counts.purge_calls);
    stats->purged_bytes = load_relaxed(&memory_counts.purged_bytes);
    stats->needed_again_bytes = load_relaxed(&returned_needed_bytes);
    return true;
}

PRIM_EXPORT size_t prim_stats_get(struct prim_stats *stats, size_t size) {
    struct prim_stats known;
    bool is_known = take_figures(&known);
    figures_copy(stats, size, &known, sizeof known);
    return is_known ? sizeof known : 0;
}

PRIM_EXPORT size_t prim_stats_classes(struct prim_class_stats *classes, size_t count, size_t size) {
    memset(classes, 0, count * size);
    return 0;
}

PRIM_EXPORT void prim_stats_print(void) {
    struct prim_stats known;
    char line[256];
    struct print out = print_to(line, sizeof line);
    if (take_figures(&known)) {
        print_format(&out,
                     "primalloc: heap of %lu bytes, of these free %lu maybe resident, %lu not; "
                     "most at a time %lu\n",
                     known.mapped_bytes, known.dirty_bytes, known.clean_bytes,
                     known.held_peak_bytes);
    } else {
        print_text(&out, "primalloc: no statistics: an interrupted call\n");
    }
    process_write_output(line, out.length);
}

static int refuse(int error) {
    errno = error;
    return -1;
}

PRIM_EXPORT int prim_stats_write(enum prim_stats_form form, prim_output *output, void *context) {
    (void)output;
    (void)context;
    return refuse((unsigned)form > PRIM_STATS_OPENMETRICS ? EINVAL : ENOTSUP);
}

PRIM_EXPORT size_t prim_heap_stats_get(prim_heap_t *heap, struct prim_heap_stats *stats,
                                       size_t size) {
    struct arena_counts counts = arena_counts((struct arena *)heap);
    struct prim_heap_stats known = {
        .live_bytes = counts.live_bytes,
        .live_blocks = counts.live_count,
        .peak_bytes = counts.peak_bytes,
        .total_bytes = counts.total_bytes,
        .total_blocks = counts.total_count,
        .freed_bytes = counts.total_bytes - counts.live_bytes,
        .freed_blocks = counts.total_count - counts.live_count,
        .area_bytes = counts.area_bytes,
        .free_bytes = counts.area_bytes - bits_min(counts.live_bytes, counts.area_bytes),
        .limit_bytes = counts.limit == SIZE_MAX ? 0 : counts.limit,
    };
    figures_copy(stats, size, &known, sizeof known);
    return thread_cache_is_inside() ? 0 : sizeof known;
}

PRIM_EXPORT void prim_heap_stats_print(prim_heap_t *heap) {
    (void)heap;
}

PRIM_EXPORT struct prim_mallinfo2 prim_mallinfo2(void) {
    struct prim_stats known;
    take_figures(&known);
    size_t free_bytes = known.dirty_bytes + known.clean_bytes;
    return (struct prim_mallinfo2){
        .arena = known.mapped_bytes,
        .uordblks = known.mapped_bytes - free_bytes,
        .fordblks = free_bytes,
        .keepcost = known.dirty_bytes,
    };
}

PRIM_EXPORT int prim_malloc_info(int form, FILE *stream) {
    if (form != 0) {
        return refuse(EINVAL);
    }
    struct prim_stats known;
    if (!take_figures(&known)) {
        return refuse(EAGAIN);
    }
    fprintf(stream,
            "<malloc version=\"primalloc-1\">\n<system type=\"current\" size=\"%zu\"/>\n"
            "<system type=\"max\" size=\"%zu\"/>\n</malloc>\n",
            (size_t)known.mapped_bytes, (size_t)known.mapped_bytes);
    return 0;
}

PRIM_EXPORT size_t prim_check_all(void) {
    return 0;
}

PRIM_EXPORT int prim_profile_start(const char *settings) {
    (void)settings;
    return refuse(ENOTSUP);
}

PRIM_EXPORT void prim_profile_stop(void) {}

PRIM_EXPORT int prim_profile_dump(const char *path) {
    (void)path;
    return refuse(ENOTSUP);
}

PRIM_EXPORT long prim_leak_check(void) {
    return refuse(ENOTSUP);
}

PRIM_EXPORT void prim_leak_ignore(const void *block) {
    (void)block;
}

PRIM_EXPORT void prim_leak_disable(void) {}

PRIM_EXPORT void prim_leak_enable(void) {}

/* As glibc's since 2.34 are without its library for debugging. */
typedef void mcheck_handler(int status);
int mcheck(mcheck_handler *handler);
int mcheck_pedantic(mcheck_handler *handler);
void mcheck_check_all(void);
int mprobe(void *block);

PRIM_EXPORT int mcheck(mcheck_handler *handler) {
    (void)handler;
    return -1;
}

PRIM_EXPORT int mcheck_pedantic(mcheck_handler *handler) {
    (void)handler;
    return -1;
}

PRIM_EXPORT void mcheck_check_all(void) {}

PRIM_EXPORT int mprobe(void *block) {
    (void)block;
    return -1; /* MCHECK_DISABLED */
}
