/* profile_settings.h - what a user asks of the heap profiler: "PATH,rate=SIZE,budget=PERCENT,
 * bytes=SIZE,seconds=N,signal=NAME,peak", each part but the path at will. */
#ifndef PRIM_WATCH_PROFILE_SETTINGS_H
#define PRIM_WATCH_PROFILE_SETTINGS_H

#include "base/compiler.h"

enum {
    PROFILE_PATH_SIZE = 512,
    PROFILE_RATE_USUAL = 512 << 10,
    PROFILE_BUDGET_USUAL = 10000,
};

struct profile_settings {
    uint64_t rate;                /* mean bytes between samples; 1: every call */
    unsigned budget;              /* what sampling may take, in millionths of the time; 0: any */
    uint64_t bytes;               /* a file whenever so many more were allocated; 0: never */
    uint64_t seconds;             /* a file so often; 0: never */
    int signal;                   /* that brings a file; 0: none */
    bool peak;                    /* a file when less is in use than at a new peak */
    char path[PROFILE_PATH_SIZE]; /* "": no files but those that are asked for by name */
};

/* Reads the text. If it is wrong, tells from where on and returns false. What reads as one of the
 * other parts is no path: "./peak" is. */
bool profile_settings_read(struct profile_settings *settings, const char *text, const char **wrong);

#endif
