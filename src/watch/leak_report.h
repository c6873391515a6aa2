/* leak_report.h - what was found, by site: as text for people, and as a file for the tool. */
#ifndef PRIM_WATCH_LEAK_REPORT_H
#define PRIM_WATCH_LEAK_REPORT_H

#include "watch/leak_graph.h"
#include "watch/profile_file.h"

/* The leaks of one site. */
struct leak_site {
    struct site *site;
    int64_t values[LEAK_VIEW_COUNT]; /* in the order of the table of names */
    enum leak_state state;           /* LEAK_INNER, or LEAK_DIRECT for all others */
};

struct leak_sum {
    uint64_t objects;
    uint64_t bytes;
};

struct leak_report {
    struct leak_site *sites; /* what weighs most first */
    size_t count;
    size_t capacity;
    struct leak_sum leaked; /* direct and indirect */
    struct leak_sum reachable;
    struct leak_sum ignored;
    bool are_threads_missed;
};

/* False without memory. */
bool leak_report_make(struct leak_report *report, const struct leak_graph *graph);
void leak_report_end(struct leak_report *report);

/* The sum, and the sites if they are told nowhere else. */
void leak_report_print(const struct leak_report *report, bool with_sites);

/* False if the file could not be written. */
bool leak_report_write(const struct leak_report *report, const char *path);

#endif
