/* report_openmetrics.c - the statistics as OpenMetrics 1.0 text, which Prometheus reads.
 *
 * Times are in seconds there, and the samples of a counter end in _total. */
#include <string.h>

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
    size_t length = strlen(figure->name);
    metric.is_ms = length > 3 && strcmp(figure->name + length - 3, "_ms") == 0;
    print_text(&out, prefix);
    print_bytes(&out, figure->name, metric.is_ms ? length - 3 : length);
    if (metric.is_ms) {
        print_text(&out, "_seconds");
        metric.unit = "seconds";
    } else if (length > 6 && strcmp(figure->name + length - 6, "_bytes") == 0) {
        metric.unit = "bytes";
    }
    metric.name[out.length] = '\0';
    return metric;
}

static void print_about(struct report *report, const char *what, const char *name,
                        const char *text) {
    print_text(&report->out, "# ");
    print_text(&report->out, what);
    print_text(&report->out, " ");
    print_text(&report->out, name);
    print_text(&report->out, " ");
    print_text(&report->out, text);
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

static void print_sample(struct report *report, const struct metric *metric,
                         const struct figure *figure, const struct class_snapshot *class,
                         uint64_t value) {
    struct print *out = &report->out;
    print_text(out, metric->name);
    print_text(out, figure->kind == KIND_COUNTER ? "_total" : "");
    if (class) {
        print_text(out, "{class=\"");
        if (class->block_bytes) {
            print_decimal(out, class->block_bytes);
        } else {
            print_text(out, "large");
        }
        print_text(out, "\"}");
    }
    print_text(out, " ");
    if (metric->is_ms) {
        print_decimal(out, value / 1000);
        print_text(out, ".");
        print_text(out, value % 1000 < 100 ? "0" : "");
        print_text(out, value % 1000 < 10 ? "0" : "");
        value %= 1000;
    }
    print_decimal(out, value);
    report_end_line(report);
}

void report_as_openmetrics(struct report *report) {
    for (unsigned i = 0; i < FIGURE_COUNT; i++) {
        if (report->is_full || figures[i].group != GROUP_CALL) {
            struct metric metric = metric_of("primalloc_", &figures[i]);
            print_family(report, &metric, &figures[i]);
            print_sample(report, &metric, &figures[i], NULL, report_values(&report->all)[i]);
        }
    }
    for (unsigned i = 1; i < CLASS_FIGURE_COUNT; i++) { /* the first is the label */
        if (!report->is_full && class_figures[i].group == GROUP_CALL) {
            continue;
        }
        struct metric metric = metric_of("primalloc_class_", &class_figures[i]);
        print_family(report, &metric, &class_figures[i]);
        for (unsigned j = 0; j < SNAPSHOT_CLASS_COUNT; j++) {
            const struct class_snapshot *class = &report->classes[j];
            if (report_is_used(class)) {
                print_sample(report, &metric, &class_figures[i], class,
                             report_class_values(class)[i]);
            }
        }
    }
    print_text(&report->out, "# EOF");
    report_end_line(report);
}
