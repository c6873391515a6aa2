/* report.c - see report.h. */
#include "watch/report.h"

#include "base/bits.h"
#include "os/memory.h"
#include "settings/options.h"

static void flush(struct report *report) {
    if (report->out.length) {
        report->output(report->piece, report->out.length, report->context);
        report->out.length = 0;
    }
}

void report_end_line(struct report *report) {
    print_text(&report->out, "\n");
    if (report->out.length + REPORT_LINE_MAX > REPORT_PIECE) {
        flush(report);
    }
}

bool report_is_used(const struct class_snapshot *class) {
    return class->slabs || class->live_blocks || class->allocations;
}

const char *report_verdict(uint64_t allocations, uint64_t frees) {
    return allocations == frees ? "ok" : "not all freed";
}

bool report_write(enum report_form form, report_output *output, void *context) {
    static void (*const forms[REPORT_FORM_COUNT])(struct report *) = {
        [REPORT_TEXT] = report_as_text,
        [REPORT_JSON] = report_as_json,
        [REPORT_XML] = report_as_xml,
        [REPORT_OPENMETRICS] = report_as_openmetrics,
    };
    size_t size = bits_round_up(sizeof(struct report), memory_page_size());
    struct report *report = memory_map(size);
    if (!report) {
        return false;
    }
    report->is_full = options.stats;
    report->output = output;
    report->context = context;
    report->out = print_to(report->piece, sizeof report->piece);
    snapshot_take(&report->all, report->classes);
    forms[form](report);
    flush(report);
    memory_unmap(report, size);
    return true;
}
