/* heap_profile.h - what samples add up to: sites, what lives, the peak, history and histograms.
 *
 * Knows nothing of where samples come from nor of files. The peak costs O(1): its number rises
 * whenever more lives than ever before, and a site that is about to change keeps what it had if it
 * was not changed since the peak. Under the lock PROFILE. */
#ifndef PRIM_WATCH_HEAP_PROFILE_H
#define PRIM_WATCH_HEAP_PROFILE_H

#include "watch/live_table.h"
#include "watch/site.h"

enum { HISTORY_MAX = 512, HISTOGRAM_SIZE = 64 };

struct history_point {
    uint64_t ticks;
    struct site_sum live;
};

/* What was in use over time: when full, every second point goes, and they come half as often. */
struct history {
    struct history_point points[HISTORY_MAX];
    unsigned count;
    uint64_t interval; /* ticks */
    uint64_t due;
};

/* Bucket b: what is above half of 2^b, up to 2^b. */
struct histogram {
    struct site_sum buckets[HISTOGRAM_SIZE];
};

struct heap_profile {
    struct site_table sites;
    struct live_table blocks;
    struct site_sum allocated;
    struct site_sum live;
    struct site_sum peak;
    uint64_t peak_number;
    uint64_t peak_ticks;
    struct histogram allocated_sizes;
    struct histogram live_sizes;
    struct histogram lifetimes; /* microseconds */
    struct history history;
    uint64_t samples;
    uint64_t stretched; /* of these, drawn where the budget had stretched the interval ... */
    unsigned stretch;   /* ... at most by this power of two */
    uint64_t coarse;    /* of those in use, drawn so */
    uint64_t lost;
    uint64_t start_ticks;
    uint64_t start_us;
    double ticks_per_us;
};

/* Forgets everything, and takes this moment as the beginning. */
void heap_profile_start(struct heap_profile *profile);

/* A block with this site begins: site, weight, size and address are filled in. */
void heap_profile_begin(struct heap_profile *profile, struct live_block *block);

/* The block that has begun was drawn with this stretch. */
PRIM_INLINE void heap_profile_note_stretch(struct heap_profile *profile, unsigned stretch) {
    profile->samples++;
    profile->stretched += stretch > 0;
    profile->stretch = stretch > profile->stretch ? stretch : profile->stretch;
}

/* A block ends, which was taken out of the table. */
void heap_profile_end(struct heap_profile *profile, const struct live_block *block);

/* The block at this address, if it is known, goes on with another size: no new allocation. */
void heap_profile_resize(struct heap_profile *profile, uintptr_t address, size_t size);

/* What lived in a site at the peak. */
PRIM_INLINE struct site_sum heap_profile_peak_of(const struct heap_profile *profile,
                                                 const struct site *site) {
    return site->peak_number == profile->peak_number ? site->peak : site->live;
}

/* Measures how fast ticks run; to be called now and then, and before a file is written: what lives
 * then is no more than the peak, however coarse the samples. */
void heap_profile_look(struct heap_profile *profile);

PRIM_INLINE uint64_t heap_profile_us(const struct heap_profile *profile, uint64_t ticks) {
    return (uint64_t)((double)(ticks - profile->start_ticks) / profile->ticks_per_us);
}

/* Growth is counted from here on. */
void heap_profile_mark(struct heap_profile *profile);

#endif
