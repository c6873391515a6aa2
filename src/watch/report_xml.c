/* report_xml.c - the statistics as malloc_info writes them: XML in the manner of glibc's. */
#include "watch/report.h"

static void print_attribute(struct print *out, const char *name, uint64_t value) {
    print_format(out, " %s=\"%lu\"", name, value);
}

static void print_class(struct report *report, const struct class_snapshot *class) {
    print_text(&report->out, "<class");
    for (unsigned i = 0; i < CLASS_FIGURE_COUNT; i++) {
        if (report->is_full || figure_at(CLASS_FIGURES + i).group != GROUP_CALL) {
            print_attribute(&report->out, figure_at(CLASS_FIGURES + i).name,
                            report_class_values(class)[i]);
        }
    }
    report_print_line(report, "/>");
}

static void print_heap(struct report *report, const struct heap_row *row) {
    struct print *out = &report->out;
    print_format(out, "<heap kind=\"%s\" name=\"", row->kind);
    report_print_name(out, row->name);
    print_format(out, "\" address=\"%#lx\"", row->address);
    for (unsigned i = 0; i < HEAP_FIGURE_COUNT; i++) {
        print_attribute(out, figure_at(HEAP_FIGURES + i).name, report_heap_values(row)[i]);
    }
    report_print_line(report, "/>");
}

/* What tools that know glibc's look for. No address space goes back. */
static void print_system(struct report *report) {
    const struct snapshot *all = &report->all;
    print_format(&report->out,
                 "<system type=\"current\" size=\"%lu\"/>\n"
                 "<system type=\"max\" size=\"%lu\"/>\n<threads count=\"%lu\"/>",
                 all->mapped_bytes, all->mapped_bytes, all->threads);
    report_end_line(report);
}

PRIM_COLD void report_as_xml(struct report *report) {
    report_print_line(report, "<malloc version=\"primalloc-1\">");
    for (unsigned i = 0; i < FIGURE_COUNT; i++) {
        if (report->is_full || figure_at(i).group != GROUP_CALL) {
            print_format(&report->out, "<figure name=\"%s\" value=\"%lu\"/>", figure_at(i).name,
                         report_values(&report->all)[i]);
            report_end_line(report);
        }
    }
    report_print_line(report, "<classes>");
    for (unsigned i = 0; i < SNAPSHOT_CLASS_COUNT; i++) {
        if (report_is_used(&report->classes[i])) {
            print_class(report, &report->classes[i]);
        }
    }
    report_print_line(report, "</classes>\n<heaps>");
    for (size_t i = 0; i < report->heaps.row_count; i++) {
        print_heap(report, &report->heaps.rows[i]);
    }
    report_print_line(report, "</heaps>");
    print_system(report);
    report_print_line(report, "</malloc>");
}
