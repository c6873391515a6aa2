/* site.h - where blocks come from: a stack, in one thread name, under one tag, with its sums.
 *
 * Sites are never taken away while a profile runs, and are found by their contents. All of this is
 * under the lock PROFILE, or in the hands of the one thread that makes a report. */
#ifndef PRIM_WATCH_SITE_H
#define PRIM_WATCH_SITE_H

#include "base/compiler.h"

enum { SITE_FRAMES_MAX = 127 };

/* Estimates: weights of samples, summed up; exact where each call is recorded. */
struct site_sum {
    double objects;
    double bytes;
};

struct site {
    struct site *next; /* in its bucket */
    uint64_t hash;
    struct site_sum allocated;
    struct site_sum live;
    struct site_sum peak; /* what lived at the peak, if peak_number is the latest */
    struct site_sum base; /* what lived when the last file was written */
    uint64_t live_samples;
    uint64_t peak_number; /* an older one: what lives now lived at the peak, too */
    uint32_t tag;
    uint16_t thread; /* index of its name */
    uint16_t frame_count;
    uint64_t frames[]; /* as stack_capture() gives them */
};

struct site_table {
    struct site **buckets;
    size_t bucket_count; /* a power of two, or 0 */
    size_t site_count;
};

/* The site of this stack, made if it is new; NULL without memory. */
struct site *site_find(struct site_table *table, const uint64_t *frames, unsigned frame_count,
                       unsigned thread, uint32_t tag);

/* Calls visit for each site. */
typedef void site_visitor(struct site *site, void *context);
void site_each(const struct site_table *table, site_visitor *visit, void *context);

#endif
