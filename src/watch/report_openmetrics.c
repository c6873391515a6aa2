/* report_openmetrics.c - the statistics as OpenMetrics 1.0 text, which Prometheus reads.
 *
 * Times are in seconds there, and the samples of a counter end in _total. */
#include <string.h>

#include "base/text.h"
#include "watch/report.h"

enum { NAME_SIZE = 64 };

struct metric {
    char name[NAME_SIZE]; /* of the family */
    const char *unit;     /* "" where there is none */
    bool is_ms;
};

static struct metric metric_of(const char *prefix, const struct figure *figure) {
    struct metric metric = {.unit = ""};
    struct print out = print_to(metric.name, NAME_SIZE - 1);
    print_format(&out, "%s%s", prefix, figure->name);
    metric.is_ms = text_ends_with(figure->name, "_ms");
    if (metric.is_ms) {
        out.length -= strlen("ms");
        print_text(&out, "seconds");
        metric.unit = "seconds";
    } else if (text_ends_with(figure->name, "_bytes")) {
        metric.unit = "bytes";
    }
    metric.name[out.length] = '\0';
    return metric;
}

static void print_about(struct report *report, const char *what, const char *name,
                        const char *text) {
    print_format(&report->out, "# %s %s %s", what, name, text);
    report_end_line(report);
}

static void print_family(struct report *report, const struct metric *metric,
                         const struct figure *figure) {
    print_about(report, "TYPE", metric->name, figure->kind == KIND_COUNTER ? "counter" : "gauge");
    if (metric->unit[0]) {
        print_about(report, "UNIT", metric->name, metric->unit);
    }
    print_about(report, "HELP", metric->name, figure->sentence);
}

static void print_name(struct report *report, const struct metric *metric,
                       const struct figure *figure) {
    print_format(&report->out, "%s%s", metric->name, figure->kind == KIND_COUNTER ? "_total" : "");
}

static void print_value(struct report *report, const struct metric *metric, uint64_t value) {
    struct print *out = &report->out;
    print_text(out, " ");
    if (metric->is_ms) {
        print_format(out, "%lu.%s%s", value / 1000, value % 1000 < 100 ? "0" : "",
                     value % 1000 < 10 ? "0" : "");
        value %= 1000;
    }
    print_decimal(out, value);
    report_end_line(report);
}

static void print_class(struct report *report, const struct class_snapshot *class) {
    if (class->block_bytes) {
        print_format(&report->out, "{class=\"%lu\"}", class->block_bytes);
    } else {
        print_text(&report->out, "{class=\"large\"}");
    }
}

/* Heaps come and go, and each would be a series of its own: only those with a name are listed. Two
 * may have the same name, so the address is a label as well; a tag's name is its own. */
static void print_heap(struct report *report, const struct heap_row *row) {
    struct print *out = &report->out;
    print_format(out, "{kind=\"%s\",name=\"", row->kind);
    report_print_name(out, row->name);
    if (strcmp(row->kind, "tag") != 0) {
        print_format(out, "\",address=\"%#lx", row->address);
    }
    print_text(out, "\"}");
}

static void print_classes(struct report *report) {
    for (unsigned i = 1; i < CLASS_FIGURE_COUNT; i++) { /* the first is the label */
        struct figure figure = figure_at(CLASS_FIGURES + i);
        if (!report->is_full && figure.group == GROUP_CALL) {
            continue;
        }
        struct metric metric = metric_of("primalloc_class_", &figure);
        print_family(report, &metric, &figure);
        for (unsigned j = 0; j < SNAPSHOT_CLASS_COUNT; j++) {
            const struct class_snapshot *class = &report->classes[j];
            if (report_is_used(class)) {
                print_name(report, &metric, &figure);
                print_class(report, class);
                print_value(report, &metric, report_class_values(class)[i]);
            }
        }
    }
}

static void print_heaps(struct report *report) {
    for (unsigned i = 0; i < HEAP_FIGURE_COUNT; i++) {
        struct figure figure = figure_at(HEAP_FIGURES + i);
        struct metric metric = metric_of("primalloc_named_heap_", &figure);
        print_family(report, &metric, &figure);
        for (size_t j = 0; j < report->heaps.row_count; j++) {
            const struct heap_row *row = &report->heaps.rows[j];
            if (row->name[0]) {
                print_name(report, &metric, &figure);
                print_heap(report, row);
                print_value(report, &metric, report_heap_values(row)[i]);
            }
        }
    }
}

PRIM_COLD void report_as_openmetrics(struct report *report) {
    for (unsigned i = 0; i < FIGURE_COUNT; i++) {
        struct figure figure = figure_at(i);
        if (report->is_full || figure.group != GROUP_CALL) {
            struct metric metric = metric_of("primalloc_", &figure);
            print_family(report, &metric, &figure);
            print_name(report, &metric, &figure);
            print_value(report, &metric, report_values(&report->all)[i]);
        }
    }
    print_classes(report);
    print_heaps(report);
    report_print_line(report, "# EOF");
}
