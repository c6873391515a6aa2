/* report_text.c - the statistics as a person wants to read them. */
#include <string.h>

#include "base/text.h"
#include "os/process.h"
#include "pages/address_map.h"
#include "primalloc.h"
#include "watch/report.h"

enum { COLUMN_NUMBER = 40, COLUMN_READABLE = 52, COLUMN_SENTENCE = 54 };

/* Right-aligned: text up to this column of the line that begins at start. */
static void print_aligned(struct print *out, size_t start, size_t column, const char *text) {
    size_t length = strlen(text);
    while (out->length + length < start + column) {
        print_text(out, " ");
    }
    print_text(out, text);
}

static void print_number(struct print *out, size_t start, size_t column, uint64_t value) {
    char digits[24] = {0};
    struct print number = print_to(digits, sizeof digits - 1);
    print_decimal(&number, value);
    print_aligned(out, start, column, digits);
}

/* Bytes in the greatest unit that leaves a whole number, with one decimal. */
static void print_readable(struct print *out, size_t start, size_t column, uint64_t bytes) {
    static const char units[][4] = {"B", "KiB", "MiB", "GiB", "TiB"};
    char text[32] = {0};
    struct print readable = print_to(text, sizeof text - 1);
    unsigned unit = 0;
    while (unit + 1 < sizeof units / sizeof units[0] && bytes >> (10 * (unit + 1))) {
        unit++;
    }
    uint64_t tenths = unit ? ((bytes >> (10 * (unit - 1))) * 10) >> 10 : bytes * 10;
    print_decimal(&readable, tenths / 10);
    if (unit) {
        print_format(&readable, ".%lu", tenths % 10);
    }
    print_format(&readable, " %s", units[unit]);
    print_aligned(out, start, column, text);
}

static void print_figure(struct report *report, const struct figure *figure, uint64_t value) {
    struct print *out = &report->out;
    size_t start = out->length;
    print_format(out, "  %s", figure->name);
    print_number(out, start, COLUMN_NUMBER, value);
    if (text_ends_with(figure->name, "_bytes")) {
        print_readable(out, start, COLUMN_READABLE, value);
    }
    print_aligned(out, start, COLUMN_SENTENCE, "");
    report_print_line(report, figure->sentence);
}

static void print_group(struct report *report, enum figure_group group, const char *title) {
    report_print_line(report, title);
    for (unsigned i = 0; i < FIGURE_COUNT; i++) {
        struct figure figure = figure_at(i);
        if (figure.group == group) {
            print_figure(report, &figure, report_values(&report->all)[i]);
        }
    }
}

static void print_head(struct report *report) {
    struct print *out = &report->out;
    print_format(out, "primalloc " PRIM_VERSION_STRING " in process %u (%s)", process_id(),
                 process_program_name());
    report_end_line(report);
}

/* Columns of the table by class: offsets of the figures and their titles. */
struct column {
    char title[13];
    uint8_t is_full; /* only where calls are counted */
    uint8_t index;   /* of the figure */
};

#define INDEX_OF(name) (uint8_t)(offsetof(struct class_snapshot, name) / sizeof(uint64_t))

static const struct column columns[] = {
    {"block", 0, INDEX_OF(block_bytes)},
    {"live", 0, INDEX_OF(live_blocks)},
    {"live bytes", 0, INDEX_OF(live_bytes)},
    {"cached", 0, INDEX_OF(cached_blocks)},
    {"partial", 0, INDEX_OF(partial_blocks)},
    {"uncarved", 0, INDEX_OF(uncarved_bytes)},
    {"asleep", 0, INDEX_OF(asleep_bytes)},
    {"slabs", 0, INDEX_OF(slabs)},
    {"peak bytes", 0, INDEX_OF(peak_bytes)},
    {"allocations", 1, INDEX_OF(allocations)},
    {"frees", 1, INDEX_OF(frees)},
    {"peak live", 1, INDEX_OF(peak_blocks)},
    {"requested", 1, INDEX_OF(requested_bytes)},
};

enum { COLUMN_COUNT = sizeof columns / sizeof columns[0], COLUMN_WIDTH = 12 };

static void print_class_head(struct report *report) {
    size_t start = report->out.length;
    size_t width = 0;
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        if (report->is_full || !columns[i].is_full) {
            print_aligned(&report->out, start, width += COLUMN_WIDTH, columns[i].title);
        }
    }
    report_print_line(report, report->is_full ? "  verdict" : "");
}

static void print_class(struct report *report, const struct class_snapshot *class) {
    size_t start = report->out.length;
    size_t width = 0;
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        if (columns[i].is_full && !report->is_full) {
            continue;
        }
        width += COLUMN_WIDTH;
        if (i == 0 && class->block_bytes == 0) {
            print_aligned(&report->out, start, width, "large");
        } else {
            print_number(&report->out, start, width, report_class_values(class)[columns[i].index]);
        }
    }
    if (report->is_full) {
        print_format(&report->out, "  %s", report_verdict(class->allocations, class->frees));
    }
    report_end_line(report);
}

#define HEAP_INDEX_OF(name) (uint8_t)(offsetof(struct heap_snapshot, name) / sizeof(uint64_t))

static const struct column heap_columns[] = {
    {"live", 0, HEAP_INDEX_OF(live_blocks)},      {"live bytes", 0, HEAP_INDEX_OF(live_bytes)},
    {"peak bytes", 0, HEAP_INDEX_OF(peak_bytes)}, {"total bytes", 0, HEAP_INDEX_OF(total_bytes)},
    {"freed", 0, HEAP_INDEX_OF(freed_bytes)},     {"areas", 0, HEAP_INDEX_OF(area_bytes)},
    {"total", 0, HEAP_INDEX_OF(total_blocks)},
};

enum { HEAP_COLUMN_COUNT = sizeof heap_columns / sizeof heap_columns[0], NAME_WIDTH = 32 };

/* What the program calls it, else where it is. */
static void print_heap(struct report *report, const struct heap_row *row) {
    struct print *out = &report->out;
    size_t start = out->length;
    print_format(out, "  %s ", row->kind);
    if (row->name[0]) {
        report_print_name(out, row->name);
    } else {
        print_hexadecimal(out, row->address);
    }
    print_aligned(out, start, NAME_WIDTH, "");
    size_t width = bits_max(out->length - start, NAME_WIDTH);
    for (unsigned i = 0; i < HEAP_COLUMN_COUNT; i++) {
        print_number(out, start, width += COLUMN_WIDTH,
                     report_heap_values(row)[heap_columns[i].index]);
    }
    print_format(out, "  %s", report_heap_verdict(row));
    report_end_line(report);
}

PRIM_COLD void report_heaps_as_text(struct report *report) {
    if (report->heaps.row_count == 0) {
        return;
    }
    size_t start = report->out.length;
    print_text(&report->out, "heaps and tags:");
    for (unsigned i = 0; i < HEAP_COLUMN_COUNT; i++) {
        print_aligned(&report->out, start, NAME_WIDTH + (i + 1) * COLUMN_WIDTH,
                      heap_columns[i].title);
    }
    report_print_line(report, "  verdict");
    for (size_t i = 0; i < report->heaps.row_count; i++) {
        print_heap(report, &report->heaps.rows[i]);
    }
}

static void print_seconds(struct print *out, const char *name, uint64_t ms) {
    print_format(out, "%s%lu.%lu s", name, ms / 1000, ms / 100 % 10);
}

static void print_size(struct print *out, const char *name, uint64_t bytes) {
    print_text(out, name);
    print_readable(out, out->length, 0, bytes);
}

/* All of the process in one line. */
static void print_process(struct report *report) {
    struct print *out = &report->out;
    const struct snapshot *all = &report->all;
    print_seconds(out, "process: elapsed ", all->elapsed_ms);
    print_seconds(out, ", user ", all->user_ms);
    print_seconds(out, ", system ", all->system_ms);
    print_format(out, ", faults %lu", all->minor_faults + all->major_faults);
    print_size(out, ", rss ", all->rss_bytes);
    print_size(out, " (peak ", all->rss_peak_bytes);
    print_size(out, "), commit ", all->held_bytes);
    print_size(out, " (peak ", all->held_peak_bytes);
    report_print_line(report, ")");
}

static void print_verdict(struct report *report) {
    struct print *out = &report->out;
    const struct snapshot *all = &report->all;
    print_format(out, "verdict: %s", report_verdict(all->allocations, all->frees));
    if (all->allocations > all->frees) {
        print_format(out, ": %lu blocks", all->allocations - all->frees);
    }
    report_end_line(report);
}

PRIM_COLD void report_as_text(struct report *report) {
    print_head(report);
    print_group(report, GROUP_BALANCE, "the heap's address space, each byte once:");
    print_group(report, GROUP_HEAP, "in all:");
    print_group(report, GROUP_COUNT, "counts:");
    print_group(report, GROUP_EVENT, "so far:");
    print_group(report, GROUP_PROCESS, "the process:");
    if (report->is_full) {
        print_group(report, GROUP_CALL, "calls:");
    }
    report_print_line(report, "by class:");
    print_class_head(report);
    for (unsigned i = 0; i < SNAPSHOT_CLASS_COUNT; i++) {
        if (report_is_used(&report->classes[i])) {
            print_class(report, &report->classes[i]);
        }
    }
    report_heaps_as_text(report);
    print_process(report);
    if (report->is_full) {
        print_verdict(report);
    }
}
