/* report_json.c - the statistics as one JSON object; docs/statistics.md is its schema. */
#include "os/process.h"
#include "primalloc.h"
#include "watch/report.h"

/* A name that may hold anything: what JSON does not take as it is becomes a question mark. */
static void print_name(struct print *out, const char *name) {
    for (; *name; name++) {
        bool is_plain = *name >= ' ' && *name <= '~' && *name != '"' && *name != '\\';
        print_bytes(out, is_plain ? name : "?", 1);
    }
}

static void print_member(struct print *out, const char *name, uint64_t value, bool is_last) {
    print_text(out, "\"");
    print_text(out, name);
    print_text(out, "\": ");
    print_decimal(out, value);
    print_text(out, is_last ? "" : ", ");
}

static void print_class(struct report *report, const struct class_snapshot *class) {
    print_text(&report->out, "    {");
    for (unsigned i = 0; i < CLASS_FIGURE_COUNT; i++) {
        print_member(&report->out, class_figures[i].name, report_class_values(class)[i],
                     i + 1 == CLASS_FIGURE_COUNT);
    }
    bool is_last = class == &report->classes[SNAPSHOT_CLASS_COUNT - 1];
    print_text(&report->out, is_last ? "}" : "},");
    report_end_line(report);
}

static void print_line(struct report *report, const char *text) {
    print_text(&report->out, text);
    report_end_line(report);
}

void report_as_json(struct report *report) {
    struct print *out = &report->out;
    print_line(report, "{\n  \"schema\": \"primalloc-stats-1\",\n"
                       "  \"version\": \"" PRIM_VERSION_STRING "\",");
    print_text(out, "  ");
    print_member(out, "pid", process_id(), false);
    print_text(out, "\"program\": \"");
    print_name(out, process_program_name());
    print_line(report, "\",");
    print_text(out, "  \"calls_counted\": ");
    print_line(report, report->is_full ? "true," : "false,");
    print_text(out, "  \"verdict\": ");
    print_text(out, report->is_full ? "\"" : "");
    print_text(out, report->is_full ? report_verdict(report->all.allocations, report->all.frees)
                                    : "null");
    print_line(report, report->is_full ? "\"," : ",");
    print_line(report, "  \"figures\": {");
    for (unsigned i = 0; i < FIGURE_COUNT; i++) {
        print_text(out, "    ");
        print_member(out, figures[i].name, report_values(&report->all)[i], true);
        print_line(report, i + 1 < FIGURE_COUNT ? "," : "");
    }
    print_line(report, "  },\n  \"classes\": [");
    for (unsigned i = 0; i < SNAPSHOT_CLASS_COUNT; i++) {
        print_class(report, &report->classes[i]);
    }
    print_line(report, "  ]\n}");
}
