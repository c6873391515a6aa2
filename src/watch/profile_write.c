/* profile_write.c - see profile_write.h; docs/profile-format.md says what each fact means. */
#include "watch/profile_write.h"

#include "base/text.h"
#include "os/machine.h"
#include "os/process.h"
#include "watch/profile_file.h"
#include "watch/profile_text.h"

static int64_t rounded(double value) {
    return (int64_t)(value < 0 ? value - 0.5 : value + 0.5);
}

struct writing {
    struct profile_file *out;
    const struct heap_profile *profile;
};

static void write_site(struct site *site, void *context) {
    struct writing *writing = context;
    struct site_sum peak = heap_profile_peak_of(writing->profile, site);
    const int64_t values[VIEW_COUNT] = {
        rounded(site->allocated.objects),
        rounded(site->allocated.bytes),
        rounded(site->live.objects),
        rounded(site->live.bytes),
        rounded(peak.objects),
        rounded(peak.bytes),
        rounded(site->live.objects - site->base.objects),
        rounded(site->live.bytes - site->base.bytes),
    };
    if (values[0]) {
        profile_file_sample(writing->out, &(struct profile_sample){.frames = site->frames,
                                                                   .frame_count = site->frame_count,
                                                                   .values = values,
                                                                   .value_count = VIEW_COUNT,
                                                                   .thread = site->thread,
                                                                   .tag = site->tag});
    }
}

static void print_triple(struct print *line, uint64_t first, double second, double third) {
    if (line->text[line->length - 1] != ' ') {
        print_text(line, " ");
    }
    print_format(line, "%lu:%lu:%lu", first, second > 0 ? (uint64_t)rounded(second) : 0,
                 third > 0 ? (uint64_t)rounded(third) : 0);
}

static void write_histogram(struct profile_file *out, enum profile_fact fact,
                            const struct histogram *histogram) {
    struct print *line = profile_fact(out, fact);
    for (unsigned i = 0; i < HISTOGRAM_SIZE; i++) {
        const struct site_sum *bucket = &histogram->buckets[i];
        if (rounded(bucket->objects) > 0) {
            print_triple(line, (uint64_t)1 << i, bucket->objects, bucket->bytes);
        }
    }
}

static void write_history(struct profile_file *out, const struct heap_profile *profile) {
    struct print *line = profile_fact(out, FACT_timeline);
    for (unsigned i = 0; i < profile->history.count; i++) {
        const struct history_point *point = &profile->history.points[i];
        print_triple(line, heap_profile_us(profile, point->ticks) / 1000, point->live.bytes,
                     point->live.objects);
    }
    if (profile->history.count < HISTORY_MAX) { /* and this moment */
        print_triple(line, heap_profile_us(profile, machine_ticks()) / 1000, profile->live.bytes,
                     profile->live.objects);
    }
}

static void write_identity(struct profile_file *out, const struct profile_occasion *occasion) {
    static const char events[][8] = {"exit", "peak", "bytes", "seconds", "signal", "call"};
    print_text(profile_fact(out, FACT_format), "primalloc-heap 1");
    profile_file_about(out);
    print_format(profile_fact(out, FACT_event), "%u %s", occasion->number, events[occasion->event]);
}

static void write_facts(struct profile_file *out, const struct heap_profile *profile,
                        const struct profile_occasion *occasion) {
    write_identity(out, occasion);
    print_decimal(profile_fact(out, FACT_lost), profile->lost);
    struct print *line = profile_fact(out, FACT_stretched);
    if (profile->stretched) {
        print_triple(line, profile->samples, (double)profile->stretched,
                     (double)(1u << profile->stretch));
    }
    uint64_t peak_us = profile->peak_ticks ? heap_profile_us(profile, profile->peak_ticks) : 0;
    print_format(profile_fact(out, FACT_peak), "%lu %lu %lu", peak_us / 1000,
                 (uint64_t)rounded(profile->peak.bytes), (uint64_t)rounded(profile->peak.objects));
    write_history(out, profile);
    write_histogram(out, FACT_live_sizes, &profile->live_sizes);
    write_histogram(out, FACT_alloc_sizes, &profile->allocated_sizes);
    write_histogram(out, FACT_lifetimes, &profile->lifetimes);
}

PRIM_COLD bool profile_write(const struct heap_profile *profile, const char *path,
                             const struct profile_occasion *occasion) {
    if (text_ends_with(path, ".heap") || text_ends_with(path, ".txt")) {
        return profile_text_write(profile, path);
    }
    struct writing writing = {profile_file_open(path), profile};
    if (!writing.out) {
        return false;
    }
    uint64_t duration_us = heap_profile_us(profile, machine_ticks());
    profile_file_head(writing.out, STRING_alloc_objects, VIEW_COUNT, STRING_inuse_space,
                      occasion->period, duration_us);
    site_each(&profile->sites, write_site, &writing);
    write_facts(writing.out, profile, occasion);
    return profile_file_close(writing.out);
}
