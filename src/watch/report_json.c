/* report_json.c - the statistics as one JSON object; docs/statistics.md is its schema. */
#include "os/process.h"
#include "primalloc.h"
#include "watch/report.h"

/* The figures of a class or a heap, from the table's row on. */
static void print_members(struct print *out, unsigned row, const uint64_t *values, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        print_format(out, i ? ", \"%s\": %lu" : "\"%s\": %lu", figure_at(row + i).name, values[i]);
    }
}

static void print_class(struct report *report, const struct class_snapshot *class) {
    print_text(&report->out, "    {");
    print_members(&report->out, CLASS_FIGURES, report_class_values(class), CLASS_FIGURE_COUNT);
    bool is_last = class == &report->classes[SNAPSHOT_CLASS_COUNT - 1];
    report_print_line(report, is_last ? "}" : "},");
}

static void print_heap(struct report *report, const struct heap_row *row) {
    struct print *out = &report->out;
    print_format(out, "    {\"kind\": \"%s\", \"name\": \"", row->kind);
    report_print_name(out, row->name);
    print_format(out, "\", \"address\": \"%#lx\", ", row->address);
    print_members(out, HEAP_FIGURES, report_heap_values(row), HEAP_FIGURE_COUNT);
    bool is_last = row == &report->heaps.rows[report->heaps.row_count - 1];
    print_format(out, ", \"verdict\": \"%s\"}%s", report_heap_verdict(row), is_last ? "" : ",");
    report_end_line(report);
}

/* With calls counted the verdict is a word, else it is null. */
static void print_head(struct report *report) {
    struct print *out = &report->out;
    const char *quote = report->is_full ? "\"" : "";
    print_format(out,
                 "{\n  \"schema\": \"primalloc-stats-2\",\n"
                 "  \"version\": \"" PRIM_VERSION_STRING "\",\n"
                 "  \"pid\": %u, \"program\": \"",
                 process_id());
    report_print_name(out, process_program_name());
    print_format(out, "\",\n  \"calls_counted\": %s,\n  \"verdict\": %s%s%s,\n",
                 report->is_full ? "true" : "false", quote,
                 report->is_full ? report_verdict(report->all.allocations, report->all.frees)
                                 : "null",
                 quote);
    report_print_line(report, "  \"figures\": {");
}

PRIM_COLD void report_as_json(struct report *report) {
    print_head(report);
    for (unsigned i = 0; i < FIGURE_COUNT; i++) {
        print_format(&report->out, "    \"%s\": %lu", figure_at(i).name,
                     report_values(&report->all)[i]);
        report_print_line(report, i + 1 < FIGURE_COUNT ? "," : "");
    }
    report_print_line(report, "  },\n  \"classes\": [");
    for (unsigned i = 0; i < SNAPSHOT_CLASS_COUNT; i++) {
        print_class(report, &report->classes[i]);
    }
    report_print_line(report, "  ],\n  \"heaps\": [");
    for (size_t i = 0; i < report->heaps.row_count; i++) {
        print_heap(report, &report->heaps.rows[i]);
    }
    report_print_line(report, "  ]\n}");
}
