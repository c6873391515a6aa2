/* report.c - see report.h. */
#include "watch/report.h"

#include <string.h>

#include "objects/heap.h"
#include "objects/thread_cache.h"
#include "os/memory.h"
#include "settings/options.h"

static void flush(struct report *report) {
    if (report->out.length) {
        report->output(report->piece, report->out.length, report->context);
        report->out.length = 0;
    }
}

PRIM_COLD void report_end_line(struct report *report) {
    print_text(&report->out, "\n");
    if (report->out.length + REPORT_LINE_MAX > REPORT_PIECE) {
        flush(report);
    }
}

PRIM_COLD void report_print_line(struct report *report, const char *text) {
    print_text(&report->out, text);
    report_end_line(report);
}

PRIM_COLD bool report_is_used(const struct class_snapshot *class) {
    return (class->slabs_made | class->live_blocks | class->allocations) != 0;
}

PRIM_COLD const char *report_verdict(uint64_t allocations, uint64_t frees) {
    return allocations == frees ? "ok" : "not all freed";
}

PRIM_COLD void report_print_name(struct print *out, const char *name) {
    const char *digits = "0123456789abcdef";
    for (; *name; name++) {
        bool is_plain = *name >= ' ' && *name <= '~' && !strchr("\"\\<>&%", *name);
        print_bytes(out, is_plain ? name : "%", 1);
        if (!is_plain) {
            print_bytes(out, &digits[*name >> 4 & 15], 1);
            print_bytes(out, &digits[*name & 15], 1);
        }
    }
}

static struct report *begin(report_output *output, void *context) {
    struct report *report = thread_cache_is_inside() ? NULL : memory_map(sizeof *report);
    if (report) {
        report->is_full = options.stats;
        report->output = output;
        report->context = context;
        report->out = print_to(report->piece, sizeof report->piece);
    }
    return report;
}

static void end(struct report *report) {
    flush(report);
    memory_unmap(report, sizeof *report);
}

PRIM_COLD bool report_write(enum report_form form, report_output *output, void *context) {
    static void (*const forms[REPORT_FORM_COUNT])(struct report *) = {
        [REPORT_TEXT] = report_as_text,
        [REPORT_JSON] = report_as_json,
        [REPORT_XML] = report_as_xml,
        [REPORT_OPENMETRICS] = report_as_openmetrics,
    };
    enum { NEW_HEAPS = 64 }; /* that may be made before they are listed */
    struct report *report = begin(output, context);
    if (!report) {
        return false;
    }
    heap_ensure();
    struct heap_rows *heaps = &report->heaps;
    heaps->room = heap_rows_count() + NEW_HEAPS;
    size_t rows_size = heaps->room * sizeof *heaps->rows;
    heaps->rows = memory_map(rows_size);
    if (heaps->rows) {
        snapshot_take_all(&report->all, report->classes, heaps);
        forms[form](report);
        memory_unmap(heaps->rows, rows_size);
    }
    bool is_done = heaps->rows != NULL;
    end(report);
    return is_done;
}

PRIM_COLD bool report_write_heap(struct arena *arena, report_output *output, void *context) {
    struct report *report = begin(output, context);
    if (!report) {
        return false;
    }
    struct heap_row row = heap_row_of(arena);
    report->heaps = (struct heap_rows){.rows = &row, .row_count = 1};
    report_heaps_as_text(report);
    end(report);
    return true;
}
