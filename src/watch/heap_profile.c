/* heap_profile.c - see heap_profile.h. */
#include "watch/heap_profile.h"

#include "base/bits.h"
#include "os/machine.h"
#include "pages/limits.h"

enum { CALIBRATION_US = 50, HISTORY_TICKS_FIRST = 1 << 21 };

static void add(struct site_sum *sum, double objects, double bytes) {
    sum->objects += objects;
    sum->bytes += bytes;
}

static struct site_sum *bucket_of(struct histogram *histogram, uint64_t value) {
    return &histogram->buckets[value > 1 ? bits_highest(value - 1) + 1 : 0];
}

static void forget_site(struct site *site, void *context) {
    (void)context;
    site->allocated = site->live = site->peak = site->base = (struct site_sum){0, 0};
    site->live_samples = 0;
    site->peak_number = 0;
}

PRIM_INLINE void note_peak(struct heap_profile *profile, uint64_t now) {
    if (profile->live.bytes > profile->peak.bytes) {
        profile->peak = profile->live;
        profile->peak_ticks = now;
        profile->peak_number++;
    }
}

PRIM_COLD void heap_profile_look(struct heap_profile *profile) {
    uint64_t us = machine_clock_us() - profile->start_us;
    uint64_t now = machine_ticks();
    uint64_t ticks = now - profile->start_ticks;
    profile->ticks_per_us = (double)(ticks ? ticks : 1) / (double)(us ? us : 1);
    note_peak(profile, now);
}

PRIM_COLD void heap_profile_start(struct heap_profile *profile) {
    struct site_table sites = profile->sites;
    live_table_empty(&profile->blocks);
    *profile = (struct heap_profile){.sites = sites, .peak_number = 1};
    site_each(&sites, forget_site, NULL);
    profile->start_us = machine_clock_us();
    profile->start_ticks = machine_ticks();
    profile->history.interval = HISTORY_TICKS_FIRST;
    profile->history.due = profile->start_ticks;
    for (unsigned i = 0; i < 1 << 16 && machine_clock_us() - profile->start_us < CALIBRATION_US;) {
        i++; /* the clock of a confined process may stand still */
    }
    heap_profile_look(profile);
}

static PRIM_COLD void note_history(struct heap_profile *profile, uint64_t now) {
    struct history *history = &profile->history;
    if (history->count == HISTORY_MAX) {
        for (size_t i = 0; i < HISTORY_MAX / 2; i++) {
            history->points[i] = history->points[2 * i];
        }
        history->count = HISTORY_MAX / 2;
        history->interval *= 2;
    }
    history->points[history->count++] = (struct history_point){now, profile->live};
    history->due = now + history->interval;
    heap_profile_look(profile);
}

/* What lives now may be the peak, and a point of the history; not where a few coarse samples make
 * more of it than the heap has ever held. */
static void note_moment(struct heap_profile *profile, uint64_t now) {
    double held = (double)(int64_t)load_relaxed(&limits.held_peak);
    if (profile->coarse && profile->live.bytes > held / 8 * 9) {
        return;
    }
    note_peak(profile, now);
    if (now >= profile->history.due) {
        note_history(profile, now);
    }
}

/* The site is about to change: what it had at the peak is what it has now. */
static void keep_peak(const struct heap_profile *profile, struct site *site) {
    site->peak = heap_profile_peak_of(profile, site);
    site->peak_number = profile->peak_number;
}

/* Three sums become more by so many blocks like this one, or less if that is negative. */
static void change(const struct live_block *block, double objects, struct site_sum *of_site,
                   struct site_sum *of_all, struct histogram *sizes) {
    double bytes = objects * (double)block->size;
    add(of_site, objects, bytes);
    add(of_all, objects, bytes);
    add(bucket_of(sizes, block->size), objects, bytes);
}

static void change_live(struct heap_profile *profile, const struct live_block *block,
                        double objects) {
    change(block, objects, &block->site->live, &profile->live, &profile->live_sizes);
}

void heap_profile_begin(struct heap_profile *profile, struct live_block *block) {
    struct site *site = block->site;
    block->born = machine_ticks();
    struct live_block unseen; /* freed by a thread that did not know yet that it is watched */
    if (live_table_take(&profile->blocks, block->address, &unseen)) {
        heap_profile_end(profile, &unseen);
    }
    if (!live_table_put(&profile->blocks, block)) {
        profile->lost++;
        return;
    }
    keep_peak(profile, site);
    change(block, block->weight, &site->allocated, &profile->allocated, &profile->allocated_sizes);
    change_live(profile, block, block->weight);
    site->live_samples++;
    profile->coarse += block->is_coarse;
    note_moment(profile, block->born);
}

void heap_profile_resize(struct heap_profile *profile, uintptr_t address, size_t size) {
    struct live_block *block = live_table_find(&profile->blocks, address);
    if (block && block->size != size) {
        keep_peak(profile, block->site);
        change_live(profile, block, -block->weight);
        block->size = size;
        change_live(profile, block, block->weight);
        note_moment(profile, machine_ticks());
    }
}

void heap_profile_end(struct heap_profile *profile, const struct live_block *block) {
    struct site *site = block->site;
    uint64_t now = machine_ticks();
    double us = (double)(now - block->born) / profile->ticks_per_us;
    keep_peak(profile, site);
    change_live(profile, block, -block->weight);
    if (--site->live_samples == 0) {
        site->live = (struct site_sum){0, 0}; /* without what rounding left */
    }
    add(bucket_of(&profile->lifetimes, (uint64_t)us + 1), block->weight,
        block->weight * (double)block->size);
    profile->coarse -= block->is_coarse;
    note_moment(profile, now);
}

static void mark_site(struct site *site, void *context) {
    (void)context;
    site->base = site->live;
}

PRIM_COLD void heap_profile_mark(struct heap_profile *profile) {
    site_each(&profile->sites, mark_site, NULL);
}
