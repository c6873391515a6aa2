#include "objects/sampling_budget.h"

#include <math.h>

#include "unit/unit.h"

static struct sampling_budget budget;

/* A program with some groups that would each be sampled every so many ticks. Time passes by the
 * program's work and by its samples. */
struct stream {
    size_t size;
    double ticks; /* between samples where nothing is stretched */
    double next;
    unsigned stretch; /* of that draw */
    unsigned samples;
};

enum { COST = 3000 };
static const double SHARE = 0.01;

static uint64_t state = 1;

static double draw(const struct stream *stream) {
    struct random random = {state++};
    double unit = ((double)random_below(&random, 1 << 30) + 1) / (1 << 30);
    return -log(unit) * stream->ticks * (double)(1u << stream->stretch);
}

static void draw_anew(struct stream *stream, double now) {
    struct sampling_group *group = sampling_budget_group(&budget, stream->size);
    stream->stretch = sampling_budget_stretch(&budget, group, (uint64_t)now);
    stream->next = now + draw(stream);
}

/* Returns the part of the time that samples and their ends took. */
static double run(struct stream *streams, unsigned count, double ticks) {
    double now = 0;
    double spent = 0;
    sampling_budget_reset(&budget, SHARE);
    for (unsigned i = 0; i < count; i++) {
        streams[i].samples = 0;
        draw_anew(&streams[i], now);
    }
    while (now < ticks) {
        struct stream *next = &streams[0];
        for (unsigned i = 1; i < count; i++) {
            next = streams[i].next < next->next ? &streams[i] : next;
        }
        now = fmax(now, next->next) + COST;
        spent += 2 * COST;
        next->samples++;
        sampling_budget_pay(&budget, sampling_budget_group(&budget, next->size), (uint64_t)now,
                            COST);
        draw_anew(next, now);
    }
    return spent / now;
}

static void one_storm_takes_no_more_than_its_share(void **unused) {
    (void)unused;
    for (double ticks = 100; ticks < 1e9; ticks *= 10) {
        struct stream storm = {.size = 200000, .ticks = ticks};
        double share = run(&storm, 1, 3e10);
        double free = 2 * COST / ticks;
        printf("every %g ticks: %.5f of the time\n", ticks, share);
        assert_true(share < 1.1 * SHARE);
        assert_true(share > 0.4 * fmin(SHARE, free));
    }
}

static void a_slow_stream_keeps_its_resolution(void **unused) {
    (void)unused;
    static struct stream streams[40];
    for (unsigned i = 0; i < ARRAY_LENGTH(streams); i++) {
        streams[i] = (struct stream){.size = size_classes[40 + i].size, .ticks = 1000};
    }
    streams[7] = (struct stream){.size = 48, .ticks = 1e9};
    double share = run(streams, ARRAY_LENGTH(streams), 3e11);
    printf("%.5f of the time, %u of 300 slow samples\n", share, streams[7].samples);
    assert_true(share < 1.1 * SHARE && share > 0.5 * SHARE);
    assert_in_range(streams[7].samples, 200, 360);
    for (unsigned i = 0; i < ARRAY_LENGTH(streams); i++) { /* the others share what there is */
        assert_true(i == 7 || streams[i].samples > 4000);
    }
}

static void what_was_stretched_recovers(void **unused) {
    (void)unused;
    struct stream storm = {.size = 400000, .ticks = 100};
    run(&storm, 1, 1e10);
    struct sampling_group *group = sampling_budget_group(&budget, storm.size);
    assert_true(load_relaxed(&group->stretch) > 8);
    uint64_t now = (uint64_t)1e10;
    for (unsigned i = 0; i < 200; i++) {
        now += 1000000;
        sampling_budget_stretch(&budget, group, now);
    }
    assert_int_equal(load_relaxed(&group->stretch), 0);
}

static void an_outlier_is_not_paid_for(void **unused) {
    (void)unused;
    sampling_budget_reset(&budget, SHARE);
    struct sampling_group *group = sampling_budget_group(&budget, 64);
    sampling_budget_pay(&budget, group, 1000, (uint64_t)1 << 40);
    assert_true(budget.credit > -(double)(1 << 22));
    assert_int_equal(load_relaxed(&group->stretch), 1);
}

static void nobody_waits(void **unused) {
    (void)unused;
    sampling_budget_reset(&budget, SHARE);
    struct sampling_group *group = sampling_budget_group(&budget, 64);
    store_relaxed(&budget.is_taken, true);
    double before = budget.credit;
    sampling_budget_pay(&budget, group, 1000, 1000);
    assert_true(budget.credit == before);
    sampling_budget_give(&budget);
    sampling_budget_pay(&budget, group, 1000, 1000);
    assert_true(budget.credit < before);
}

/* A profile that begins while somebody pays has its own share all the same. */
static void a_reset_waits_for_nobody(void **unused) {
    (void)unused;
    sampling_budget_reset(&budget, 0);
    struct sampling_group *group = sampling_budget_group(&budget, 64);
    double before = budget.credit;
    sampling_budget_pay(&budget, group, 1000, 1000); /* of the profile that is over: for nothing */
    assert_true(budget.credit == before);
    store_relaxed(&group->stretch, 7);
    store_relaxed(&budget.is_taken, true);
    sampling_budget_reset(&budget, SHARE);
    sampling_budget_give(&budget);
    assert_true(load_relaxed(&budget.share) == SHARE);
    assert_int_equal(load_relaxed(&group->stretch), 0);
}

/* Who read the clock before another and comes behind it earns nothing, and gives nothing back. */
static void no_time_passes_twice(void **unused) {
    (void)unused;
    sampling_budget_reset(&budget, SHARE);
    struct sampling_group *group = sampling_budget_group(&budget, 64);
    sampling_budget_pay(&budget, group, 1000000, 1000);
    double before = budget.credit;
    sampling_budget_pay(&budget, group, 900000, 1000);
    assert_true(budget.credit < before);
    assert_int_equal(budget.credited_at, 1000000);
    store_relaxed(&group->stretch, 3);
    assert_int_equal(sampling_budget_stretch(&budget, group, 800000), 3);
}

static void groups(void **unused) {
    (void)unused;
    assert_int_equal(sampling_budget_index(0), CLASS_OF_8);
    assert_int_equal(sampling_budget_index(MEDIUM_SIZE_MAX), MEDIUM_CLASS_LAST);
    assert_int_equal(sampling_budget_index(MEDIUM_SIZE_MAX + 1), CLASS_COUNT + 1);
    assert_int_equal(sampling_budget_index(2 * MEDIUM_SIZE_MAX - 1), CLASS_COUNT + 1);
    assert_int_equal(sampling_budget_index(2 * MEDIUM_SIZE_MAX), CLASS_COUNT + 2);
    assert_int_equal(sampling_budget_index(SIZE_MAX), SAMPLING_GROUPS - 1);
    assert_ptr_equal(sampling_budget_group(&budget, 0), &budget.groups[CLASS_OF_8]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_storm_takes_no_more_than_its_share),
        cmocka_unit_test(a_slow_stream_keeps_its_resolution),
        cmocka_unit_test(what_was_stretched_recovers),
        cmocka_unit_test(an_outlier_is_not_paid_for),
        cmocka_unit_test(nobody_waits),
        cmocka_unit_test(a_reset_waits_for_nobody),
        cmocka_unit_test(no_time_passes_twice),
        cmocka_unit_test(groups),
    };
    return cmocka_run_group_tests_name("sampling budget", tests, NULL, NULL);
}
