/* profile_file.h - a profile written as docs/profile-format.md says: gzipped protocol buffer.
 *
 * One pass, in bounded memory but for a table of the locations that were written; the parts may
 * come in any order, and the strings come last. */
#ifndef PRIM_WATCH_PROFILE_FILE_H
#define PRIM_WATCH_PROFILE_FILE_H

#include "base/print.h"
#include "watch/gzip.h"
#include "watch/live_table.h"

/* The strings that are always there, by their place in the table of strings. */
enum profile_string {
    STRING_EMPTY,
#define VIEW(name, unit) STRING_##name,
#define LEAK_VIEW(name, unit) STRING_##name,
#define FACT(key)
#define FIELD(message, name, number)
#include "watch/profile_format.def"
#undef VIEW
#undef LEAK_VIEW
#undef FACT
#undef FIELD
    STRING_COUNT_UNIT,
    STRING_BYTES_UNIT,
    STRING_SPACE,
    STRING_THREAD,
    STRING_TAG,
    STRING_KIND,
    STRING_LOST,
    STRING_INNER,
    STRING_FIXED_COUNT
};

enum profile_fact {
#define VIEW(name, unit)
#define LEAK_VIEW(name, unit)
#define FACT(key) FACT_##key,
#define FIELD(message, name, number)
#include "watch/profile_format.def"
#undef VIEW
#undef LEAK_VIEW
#undef FACT
#undef FIELD
};

enum { VIEW_COUNT = 8, LEAK_VIEW_COUNT = 6, FACTS_SIZE = 64 << 10, MESSAGE_SIZE = 2048 };

struct message {
    size_t used;
    uint8_t bytes[MESSAGE_SIZE];
};

struct profile_file {
    struct live_table locations; /* by marked frame, the numbers of the locations */
    unsigned thread_count;       /* labels known when the file was begun, */
    unsigned tag_count;          /* and tags that there may be */
    bool is_out_of_memory;
    struct print facts; /* each ended by a zero, but for the last one; */
    size_t facts_used;  /* those before that, */
    size_t fact_start;  /* and where the text of it begins */
    struct output_file file;
    struct gzip gzip;
    struct message message; /* what is being put together, */
    struct message part;    /* and a part of it, */
    struct message head;    /* and what stands before it */
    char path[4096];
    char facts_text[FACTS_SIZE];
};

/* Maps the writer and opens the file; NULL if either cannot be. */
struct profile_file *profile_file_open(const char *path);

/* kind: the first of a sample's values and how many there are; those in use come second. */
void profile_file_head(struct profile_file *out, enum profile_string first, unsigned count,
                       enum profile_string shown, uint64_t period, uint64_t duration_us);

struct profile_sample {
    const uint64_t *frames;
    unsigned frame_count;
    const int64_t *values;
    unsigned value_count;
    unsigned thread;          /* label; 0: none */
    unsigned tag;             /* number; 0: none */
    enum profile_string kind; /* STRING_EMPTY: none */
};

void profile_file_sample(struct profile_file *out, const struct profile_sample *sample);

/* Begins a line of facts, to be continued in out->facts, and ends the one before, which is taken
 * away if it has no text. */
struct print *profile_fact(struct profile_file *out, enum profile_fact fact);

/* The facts that every kind of profile has: library and program. */
void profile_file_about(struct profile_file *out);

/* Writes the rest. False, and there is no file, if something went wrong. */
bool profile_file_close(struct profile_file *out);

#endif
