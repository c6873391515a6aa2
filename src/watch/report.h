/* report.h - a snapshot in words: for people, and in three forms for programs.
 *
 * What one needs for it is mapped and unmapped, so that the heap stays as it was and a small stack
 * is enough. Text goes out in pieces of at most REPORT_PIECE bytes, each of whole lines. */
#ifndef PRIM_WATCH_REPORT_H
#define PRIM_WATCH_REPORT_H

#include "watch/snapshot.h"

enum report_form { REPORT_TEXT, REPORT_JSON, REPORT_XML, REPORT_OPENMETRICS, REPORT_FORM_COUNT };

enum { REPORT_PIECE = 4096, REPORT_LINE_MAX = 1024 };

typedef void report_output(const char *text, size_t length, void *context);

struct report {
    struct print out; /* into the piece */
    report_output *output;
    void *context;
    bool is_full; /* options.stats: calls were counted */
    struct heap_rows heaps;
    struct snapshot all;
    struct class_snapshot classes[SNAPSHOT_CLASS_COUNT];
    char piece[REPORT_PIECE];
};

/* Takes a snapshot and writes it; false when there is no memory for that, or in a signal handler
 * that interrupted us. */
bool report_write(enum report_form form, report_output *output, void *context);

/* Writes one heap's row for a person; false in the same cases. */
bool report_write_heap(struct arena *arena, report_output *output, void *context);

/* For the forms: to be called after each line, which has at most REPORT_LINE_MAX bytes; or with the
 * last of its text. */
void report_end_line(struct report *report);
void report_print_line(struct report *report, const char *text);

void report_as_text(struct report *report);
void report_as_json(struct report *report);
void report_as_xml(struct report *report);
void report_as_openmetrics(struct report *report);

/* The table of first-class heaps and tags, as text; nothing where there are none. */
void report_heaps_as_text(struct report *report);

/* A name that may hold anything: what a form may not take as it is is written as in a URL, "%c3",
 * so that names that differ are told apart. */
void report_print_name(struct print *out, const char *name);

/* Whether anything of the class was ever used, as far as is known. */
bool report_is_used(const struct class_snapshot *class);

/* "ok" if every counted block was freed, else "not all freed". */
const char *report_verdict(uint64_t allocations, uint64_t frees);

PRIM_INLINE const uint64_t *report_values(const struct snapshot *snapshot) {
    return (const uint64_t *)snapshot;
}

PRIM_INLINE const uint64_t *report_heap_values(const struct heap_row *row) {
    return (const uint64_t *)&row->figures;
}

/* "ok" if no block of the heap is left. */
PRIM_INLINE const char *report_heap_verdict(const struct heap_row *row) {
    return report_verdict(row->figures.total_blocks, row->figures.freed_blocks);
}

PRIM_INLINE const uint64_t *report_class_values(const struct class_snapshot *class) {
    return (const uint64_t *)class;
}

#endif
