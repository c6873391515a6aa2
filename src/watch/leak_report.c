/* leak_report.c - see leak_report.h. */
#include "watch/leak_report.h"

#include <string.h>

#include "os/memory.h"
#include "os/process.h"
#include "os/symbol_file.h"
#include "watch/site.h"
#include "watch/stack.h"

enum { SITES_SHOWN = 50, FRAMES_SHOWN = 24, LINE_SIZE = 2048 };

enum { LEAKED, LEAKED_BYTES, HELD, HELD_BYTES, INDIRECT, INDIRECT_BYTES };

static size_t report_bytes(size_t capacity) {
    return (capacity + 1) * sizeof(struct leak_site);
}

static void count(struct leak_sum *sum, const struct leak_block *block) {
    sum->objects++;
    sum->bytes += block->size;
}

static void add_values(struct leak_site *site, unsigned first, size_t size) {
    site->values[first]++;
    site->values[first + 1] += (int64_t)size;
}

/* The row of a site, by a table of their numbers. */
static struct leak_site *row_of(struct leak_report *report, struct live_table *numbers,
                                struct site *site, enum leak_state state) {
    uintptr_t key = (uintptr_t)site + (state == LEAK_INNER);
    const struct live_block *known = live_table_find(numbers, key);
    if (known) {
        return &report->sites[known->size];
    }
    if (!live_table_put_number(numbers, key, report->count)) {
        return NULL;
    }
    struct leak_site *row = &report->sites[report->count++];
    *row = (struct leak_site){.site = site, .state = state};
    return row;
}

/* The direct leak that an indirect one hangs on in the end. A list that was built at its front is
 * one chain of holders: whoever walks along it halves the way for others. */
static const struct leak_block *holder_of(const struct leak_graph *graph,
                                          struct leak_block *block) {
    while (block->state == LEAK_INDIRECT && block->holder < graph->count) {
        struct leak_block *holder = &graph->blocks[block->holder];
        block->holder = holder->holder; /* of a direct one: itself */
        block = holder;
    }
    return block;
}

static void add_leak(struct leak_report *report, struct live_table *numbers,
                     const struct leak_graph *graph, struct leak_block *block) {
    enum leak_state state = block->state == LEAK_INNER ? LEAK_INNER : LEAK_DIRECT;
    struct leak_site *row = row_of(report, numbers, block->site, state);
    count(&report->leaked, block);
    if (!row) {
        return;
    }
    if (block->state != LEAK_INDIRECT) {
        add_values(row, LEAKED, block->size);
        return;
    }
    add_values(row, INDIRECT, block->size);
    const struct leak_block *holder = holder_of(graph, block);
    state = holder->state == LEAK_INNER ? LEAK_INNER : LEAK_DIRECT;
    row = row_of(report, numbers, holder->site, state);
    if (row) {
        add_values(row, HELD, block->size);
    }
}

static int64_t weight(const struct leak_site *site) {
    return site->values[LEAKED_BYTES] + site->values[HELD_BYTES];
}

/* What is shown goes to the front, the heaviest first. */
static void sort(struct leak_report *report) {
    for (size_t i = 0; i < report->count && i < SITES_SHOWN; i++) {
        size_t heaviest = i;
        for (size_t j = i + 1; j < report->count; j++) {
            heaviest = weight(&report->sites[j]) > weight(&report->sites[heaviest]) ? j : heaviest;
        }
        struct leak_site site = report->sites[i];
        report->sites[i] = report->sites[heaviest];
        report->sites[heaviest] = site;
    }
}

PRIM_COLD bool leak_report_make(struct leak_report *report, const struct leak_graph *graph) {
    struct live_table numbers = {0};
    size_t leaked = 0;
    for (size_t i = 0; i < graph->count; i++) {
        leaked += graph->blocks[i].state < LEAK_IGNORED;
    }
    *report = (struct leak_report){.capacity = 2 * leaked};
    report->sites = memory_map(report_bytes(report->capacity));
    if (!report->sites) {
        return false;
    }
    for (size_t i = 0; i < graph->count; i++) {
        struct leak_block *block = &graph->blocks[i];
        if (block->state < LEAK_IGNORED) {
            add_leak(report, &numbers, graph, block);
        } else {
            count(block->state == LEAK_IGNORED ? &report->ignored : &report->reachable, block);
        }
    }
    live_table_empty(&numbers);
    sort(report);
    return true;
}

PRIM_COLD void leak_report_end(struct leak_report *report) {
    memory_unmap(report->sites, report_bytes(report->capacity));
}

static void print_amount(struct print *out, uint64_t bytes, uint64_t objects) {
    print_format(out, "%lu byte%s in %lu block%s", bytes, bytes == 1 ? "" : "s", objects,
                 objects == 1 ? "" : "s");
}

static void print_frame(struct print *out, uint64_t frame) {
    uintptr_t address = stack_frame_address(frame) - 1;
    unsigned index = stack_frame_module(frame);
    struct symbol symbol;
    char path[512];
    print_format(out, "    %#lx", address + 1);
    if (index) {
        const struct module *module = module_at(index);
        if (symbol_find(module, address, &symbol)) {
            print_format(out, " %s", symbol.name);
        }
        symbol_file_path(module, path, sizeof path);
        print_format(out, " (%s+%#lx)", path, address - module->start);
    }
    print_text(out, "\n");
}

static void flush(struct print *out) {
    process_write_error(out->text, out->length);
    out->length = 0;
}

static void print_site(const struct leak_site *row) {
    char text[LINE_SIZE];
    struct print out = print_to(text, sizeof text);
    const int64_t *values = row->values;
    if (values[LEAKED] == 0) {
        return; /* hangs on another site's */
    }
    print_text(&out, "\n");
    print_amount(&out, (uint64_t)values[LEAKED_BYTES], (uint64_t)values[LEAKED]);
    print_text(&out, row->state == LEAK_INNER ? ", to which only inner pointers lead" : "");
    if (values[HELD]) {
        print_text(&out, ", which hold ");
        print_amount(&out, (uint64_t)values[HELD_BYTES], (uint64_t)values[HELD]);
        print_text(&out, " more");
    }
    print_text(&out, ", allocated at\n");
    for (unsigned i = 0; row->site && i < row->site->frame_count && i < FRAMES_SHOWN; i++) {
        print_frame(&out, row->site->frames[i]);
        flush(&out);
    }
    flush(&out);
}

PRIM_COLD void leak_report_print(const struct leak_report *report, bool with_sites) {
    char text[LINE_SIZE];
    struct print out = print_to(text, sizeof text);
    print_format(&out, "primalloc: leak check of process %u: ", process_id());
    if (report->leaked.objects) {
        print_amount(&out, report->leaked.bytes, report->leaked.objects);
        print_text(&out, " leaked\n");
    } else {
        print_text(&out, "no leaks\n");
    }
    if (report->are_threads_missed) {
        print_text(&out, "primalloc: other threads could not be stopped: what only they point to "
                         "counts as leaked\n");
    }
    flush(&out);
    for (size_t i = 0; with_sites && i < report->count && i < SITES_SHOWN; i++) {
        print_site(&report->sites[i]);
    }
}

static void write_sum(struct profile_file *out, enum profile_fact fact,
                      const struct leak_sum *sum) {
    print_format(profile_fact(out, fact), "%lu %lu", sum->objects, sum->bytes);
}

PRIM_COLD bool leak_report_write(const struct leak_report *report, const char *path) {
    struct profile_file *out = profile_file_open(path);
    if (!out) {
        return false;
    }
    profile_file_head(out, STRING_leaked_objects, LEAK_VIEW_COUNT, STRING_leaked_space, 1, 0);
    for (size_t i = 0; i < report->count; i++) {
        const struct leak_site *row = &report->sites[i];
        profile_file_sample(out, &(struct profile_sample){.frames = row->site->frames,
                                                          .frame_count = row->site->frame_count,
                                                          .values = row->values,
                                                          .value_count = LEAK_VIEW_COUNT,
                                                          .thread = row->site->thread,
                                                          .kind = row->state == LEAK_INNER
                                                                      ? STRING_INNER
                                                                      : STRING_LOST});
    }
    print_text(profile_fact(out, FACT_format), "primalloc-leaks 1");
    profile_file_about(out);
    write_sum(out, FACT_reachable, &report->reachable);
    write_sum(out, FACT_ignored, &report->ignored);
    return profile_file_close(out);
}
