/* report_json.c - the statistics as one JSON object; docs/statistics.md is its schema. */
#include "os/process.h"
#include "primalloc.h"
#include "watch/report.h"

static void print_member(struct print *out, const char *name, uint64_t value, bool is_last) {
    print_format(out, is_last ? "\"%s\": %lu" : "\"%s\": %lu, ", name, value);
}

static void print_class(struct report *report, const struct class_snapshot *class) {
    print_text(&report->out, "    {");
    for (unsigned i = 0; i < CLASS_FIGURE_COUNT; i++) {
        print_member(&report->out, figure_at(CLASS_FIGURES + i).name, report_class_values(class)[i],
                     i + 1 == CLASS_FIGURE_COUNT);
    }
    bool is_last = class == &report->classes[SNAPSHOT_CLASS_COUNT - 1];
    report_print_line(report, is_last ? "}" : "},");
}

static void print_heap(struct report *report, const struct heap_row *row) {
    struct print *out = &report->out;
    print_format(out, "    {\"kind\": \"%s\", \"name\": \"", row->kind);
    report_print_name(out, row->name);
    print_format(out, "\", \"address\": \"%#lx\", ", row->address);
    for (unsigned i = 0; i < HEAP_FIGURE_COUNT; i++) {
        print_member(out, figure_at(HEAP_FIGURES + i).name, report_heap_values(row)[i], false);
    }
    bool is_last = row == &report->heaps.rows[report->heaps.row_count - 1];
    print_format(out, "\"verdict\": \"%s\"}%s", report_heap_verdict(row), is_last ? "" : ",");
    report_end_line(report);
}

PRIM_COLD void report_as_json(struct report *report) {
    struct print *out = &report->out;
    report_print_line(report, "{\n  \"schema\": \"primalloc-stats-2\",\n"
                              "  \"version\": \"" PRIM_VERSION_STRING "\",");
    print_text(out, "  ");
    print_member(out, "pid", process_id(), false);
    print_text(out, "\"program\": \"");
    report_print_name(out, process_program_name());
    report_print_line(report, "\",");
    print_text(out, "  \"calls_counted\": ");
    report_print_line(report, report->is_full ? "true," : "false,");
    print_text(out, "  \"verdict\": ");
    print_text(out, report->is_full ? "\"" : "");
    print_text(out, report->is_full ? report_verdict(report->all.allocations, report->all.frees)
                                    : "null");
    report_print_line(report, report->is_full ? "\"," : ",");
    report_print_line(report, "  \"figures\": {");
    for (unsigned i = 0; i < FIGURE_COUNT; i++) {
        print_text(out, "    ");
        print_member(out, figure_at(i).name, report_values(&report->all)[i], true);
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
