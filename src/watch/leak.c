/* leak.c - see leak.h.
 *
 * What initialisers of libraries and dlopen allocated is the loader's own, or was taken once and
 * for all: blocks that the loader allocated count as reachable, and a minimal check passes over all
 * that came by way of it. */
#include "watch/leak.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/print.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/symbol_file.h"
#include "settings/options.h"
#include "watch/leak_report.h"
#include "watch/leak_roots.h"
#include "watch/leak_suppress.h"
#include "watch/profile.h"
#include "watch/site.h"
#include "watch/stack.h"

static bool is_loader(unsigned module) {
    return module && symbol_file_is_loader(module_at(module)->path);
}

static bool is_of_loader(const struct site *site) {
    return site->frame_count && is_loader(stack_frame_module(site->frames[0]));
}

static bool came_by_loader(const struct site *site) {
    for (unsigned i = 0; i < site->frame_count; i++) {
        if (is_loader(stack_frame_module(site->frames[i]))) {
            return true;
        }
    }
    return false;
}

/* What is not pointed to, but nobody's leak; and all that it points to. */
static void pass_over(struct leak_graph *graph) {
    bool is_minimal = options.leak_check == LEAK_CHECK_MINIMAL;
    for (size_t i = 0; i < graph->count; i++) {
        struct leak_block *block = &graph->blocks[i];
        if (block->is_ignored || (is_minimal && came_by_loader(block->site))) {
            leak_graph_follow_block(graph, block, LEAK_IGNORED);
        } else if (is_of_loader(block->site)) {
            leak_graph_follow_block(graph, block, LEAK_REACHABLE);
        }
    }
    if (!getauxval(AT_BASE)) { /* no loader: in a static program its code is the program's own */
        leak_suppress_by(graph, "leak:^_dl_allocate_tls$");
    }
}

/* Each check of a process writes its file anew; that of another process stays. */
static PRIM_COLD bool write_report(const struct leak_report *report) {
    static _Atomic unsigned writer; /* (atomic: hint) the process that wrote the file */
    char path[OUTPUT_PATH_SIZE];
    profile_name_leaks(path, options.leak_report, load_relaxed(&writer) == process_id());
    bool is_written = leak_report_write(report, path);
    if (is_written) {
        store_relaxed(&writer, process_id());
    } else {
        process_complain("leak check: cannot write ", path);
    }
    return is_written;
}

/* All that the check has on the stack while stacks are followed: nothing that was there before. */
struct search {
    struct leak_graph graph;
    bool are_threads_missed;
    bool is_done;
    struct leak_report report;
};

static int64_t tell(struct search *found) {
    struct leak_graph *graph = &found->graph;
    struct leak_report *report = &found->report;
    pass_over(graph);
    if (options.leak_suppress) {
        leak_suppress(graph, options.leak_suppress);
    }
    leak_graph_divide(graph);
    if (!leak_report_make(report, graph)) {
        return -1;
    }
    report->are_threads_missed = found->are_threads_missed;
    bool is_in_file = options.leak_report && write_report(report);
    leak_report_print(report, !is_in_file);
    leak_report_end(report);
    return (int64_t)report->leaked.objects;
}

/* Called once, with the loader's lock held, which comes before ours: whoever loads or unloads a
 * library allocates and frees under it. */
static int search(struct dl_phdr_info *info, size_t size, void *context) {
    struct search *search = context;
    (void)info;
    (void)size;
    const struct live_table *blocks = profile_lock_blocks();
    if (blocks) {
        search->is_done = leak_roots_follow(&search->graph, blocks, &search->are_threads_missed);
        profile_unlock_blocks();
    }
    return 1;
}

/* What earlier calls left on the stack is nothing that the frames which come to lie there hold. */
static PRIM_COLD void clear_stack(void) {
    char below[2048];
    memset(below, 0, sizeof below);
    __asm__ volatile("" : : "r"(below) : "memory");
}

PRIM_COLD int64_t leak_check(void) {
    struct search found = {.graph = {.is_strict = options.leak_check == LEAK_CHECK_STRICT}};
    int64_t leaked = -1;
    clear_stack();
    dl_iterate_phdr(search, &found);
    if (found.is_done) {
        leaked = tell(&found);
        leak_graph_end(&found.graph);
    }
    if (leaked < 0) {
        process_complain("leak check: no ", found.graph.lacks ? found.graph.lacks : "memory");
    }
    return leaked;
}
