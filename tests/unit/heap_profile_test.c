/* Sums, peak and blocks against a model that recounts everything at every step. */
#include "watch/heap_profile.h"

#include "unit/unit.h"

enum { SITES = 12, BLOCKS = 600, STEPS = 20000 };

static struct heap_profile profile;

struct model_block {
    unsigned site; /* SITES: not in use */
    size_t size;
    double weight;
};

static struct model_block blocks[BLOCKS];
static struct site *sites[SITES];
static struct site_sum live[SITES], peak[SITES], allocated[SITES];

static struct site *site_number(unsigned number) {
    uint64_t frames[] = {number % 3, number / 3, 77};
    return site_find(&profile.sites, frames, 3 - (number == 5), number == 7, number == 9);
}

static uintptr_t address_of(unsigned block) {
    return 0x10000 + (uintptr_t)block * 48;
}

static double sum_of(const struct site_sum *sums) {
    double bytes = 0;
    for (unsigned i = 0; i < SITES; i++) {
        bytes += sums[i].bytes;
    }
    return bytes;
}

static void note_peak(void) {
    if (sum_of(live) > sum_of(peak)) {
        memcpy(peak, live, sizeof peak);
    }
}

static void resize(unsigned block, size_t size) {
    struct model_block *model = &blocks[block];
    live[model->site].bytes += model->weight * ((double)size - (double)model->size);
    model->size = size;
    heap_profile_resize(&profile, address_of(block), size);
    note_peak();
}

static void change(struct random *random) {
    unsigned block = (unsigned)random_below(random, BLOCKS);
    struct model_block *model = &blocks[block];
    if (model->site < SITES && random_below(random, 3) == 0) {
        resize(block, random_below(random, 9999));
        return;
    }
    if (model->site < SITES) {
        struct live_block known;
        live_table_take(&profile.blocks, address_of(block), &known);
        heap_profile_end(&profile, &known);
        live[model->site].objects -= model->weight;
        live[model->site].bytes -= model->weight * (double)model->size;
        model->site = SITES;
        return;
    }
    *model = (struct model_block){(unsigned)random_below(random, SITES), random_below(random, 9999),
                                  (double)(1 + random_below(random, 8))};
    heap_profile_begin(&profile, &(struct live_block){.address = address_of(block),
                                                      .site = sites[model->site],
                                                      .size = model->size,
                                                      .weight = model->weight});
    struct site_sum *sums[] = {&live[model->site], &allocated[model->site]};
    for (unsigned i = 0; i < 2; i++) {
        sums[i]->objects += model->weight;
        sums[i]->bytes += model->weight * (double)model->size;
    }
    note_peak();
}

static void assert_sum(struct site_sum sum, struct site_sum expected) {
    assert_true(sum.objects == expected.objects); /* whole numbers: exact */
    assert_true(sum.bytes == expected.bytes);
}

static void begin(void) {
    heap_profile_start(&profile);
    memset(live, 0, sizeof live);
    memset(peak, 0, sizeof peak);
    memset(allocated, 0, sizeof allocated);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i].site = SITES;
    }
    for (unsigned i = 0; i < SITES; i++) {
        sites[i] = site_number(i);
        assert_non_null(sites[i]);
    }
}

static void sums_and_peak_are_those_of_a_model(void **state) {
    (void)state;
    struct random random = unit_random();
    for (unsigned round = 0; round < 2; round++) { /* the second starts again */
        begin();
        for (unsigned i = 0; i < STEPS; i++) {
            change(&random);
        }
        assert_true(profile.live.bytes == sum_of(live));
        assert_true(profile.peak.bytes == sum_of(peak));
        assert_true(profile.allocated.bytes == sum_of(allocated));
        for (unsigned i = 0; i < SITES; i++) {
            assert_sum(sites[i]->live, live[i]);
            assert_sum(sites[i]->allocated, allocated[i]);
            assert_sum(heap_profile_peak_of(&profile, sites[i]), peak[i]);
        }
        assert_int_equal(profile.lost, 0);
    }
}

static void histograms_hold_everything(void **state) {
    (void)state;
    struct site_sum sizes = {0}, all = {0}, ages = {0};
    for (unsigned i = 0; i < HISTOGRAM_SIZE; i++) {
        sizes.bytes += profile.live_sizes.buckets[i].bytes;
        all.bytes += profile.allocated_sizes.buckets[i].bytes;
        ages.objects += profile.lifetimes.buckets[i].objects;
    }
    assert_true(sizes.bytes == profile.live.bytes);
    assert_true(all.bytes == profile.allocated.bytes);
    assert_true(ages.objects == profile.allocated.objects - profile.live.objects);
    assert_true(profile.live_sizes.buckets[20].objects == 0); /* 9999 is the greatest size */
}

static void growth_is_counted_from_a_mark(void **state) {
    (void)state;
    heap_profile_mark(&profile);
    assert_sum(sites[3]->base, sites[3]->live);
}

static void history_gets_coarser(void **state) {
    (void)state;
    begin();
    profile.history.interval = 1;
    struct random random = unit_random();
    for (unsigned i = 0; i < STEPS; i++) {
        change(&random);
    }
    assert_in_range(profile.history.count, 1, HISTORY_MAX);
    for (unsigned i = 1; i < profile.history.count; i++) {
        assert_true(profile.history.points[i].ticks > profile.history.points[i - 1].ticks);
    }
    assert_true(profile.history.interval > 1);
    assert_true(profile.ticks_per_us > 0);
}

static void count_site(struct site *site, void *context) {
    (void)site;
    ++*(unsigned *)context;
}

static void what_the_heap_never_held_is_no_peak(void **state) {
    (void)state;
    begin();
    struct live_block usual = {.address = 48, .site = sites[0], .size = 3000, .weight = 9};
    struct live_block coarse = {
        .address = 96, .site = sites[1], .size = 3000, .weight = 1e12, .is_coarse = true};
    heap_profile_begin(&profile, &coarse);
    heap_profile_begin(&profile, &usual);
    assert_true(profile.peak.bytes == 0);
    heap_profile_end(&profile, &coarse);
    assert_true(profile.peak.bytes == 27000);
    assert_sum(heap_profile_peak_of(&profile, sites[0]), (struct site_sum){9, 27000});
    assert_sum(heap_profile_peak_of(&profile, sites[1]), (struct site_sum){0, 0});
}

/* Not in a file that is written while the coarse sample lives, nor in later ones. */
static void what_lives_is_no_more_than_the_peak(void **state) {
    (void)state;
    begin();
    struct live_block coarse = {
        .address = 96, .site = sites[1], .size = 3000, .weight = 1e12, .is_coarse = true};
    heap_profile_begin(&profile, &coarse);
    assert_true(profile.live.bytes > profile.peak.bytes);
    for (unsigned i = 0; i < 2; i++) {
        heap_profile_look(&profile);
        assert_sum(profile.peak, (struct site_sum){1e12, 3e15});
        assert_sum(heap_profile_peak_of(&profile, sites[1]), profile.peak);
        assert_true(profile.peak.bytes <= profile.allocated.bytes);
        assert_true(profile.peak_ticks >= coarse.born);
        if (i == 0) {
            heap_profile_end(&profile, &coarse);
        }
    }
}

/* Threads notice late that somebody profiles: what they free before that nobody sees. */
static void what_takes_its_place_ends_a_block(void **state) {
    (void)state;
    begin();
    struct live_block gone = {.address = 48, .site = sites[0], .size = 3000, .weight = 1};
    struct live_block next = {.address = 48, .site = sites[1], .size = 40, .weight = 1};
    heap_profile_begin(&profile, &gone);
    heap_profile_begin(&profile, &next);
    assert_sum(sites[0]->live, (struct site_sum){0, 0});
    assert_sum(sites[1]->live, (struct site_sum){1, 40});
    assert_true(profile.live.bytes == 40);
    assert_int_equal(sites[0]->live_samples, 0);
}

static void a_block_with_another_size_is_the_same(void **state) {
    (void)state;
    begin();
    struct live_block block = {.address = 48, .site = sites[0], .size = 3000, .weight = 2};
    heap_profile_begin(&profile, &block);
    for (unsigned i = 0; i < 100; i++) {
        heap_profile_resize(&profile, 48, i % 2 ? 1000 : 5000);
    }
    assert_sum(sites[0]->allocated, (struct site_sum){2, 6000});
    assert_sum(profile.allocated, (struct site_sum){2, 6000});
    assert_sum(sites[0]->live, (struct site_sum){2, 2000});
    assert_sum(profile.peak, (struct site_sum){2, 10000});
    assert_sum(profile.live_sizes.buckets[10], (struct site_sum){2, 2000});
    assert_sum(profile.allocated_sizes.buckets[12], (struct site_sum){2, 6000});
    assert_int_equal(live_table_find(&profile.blocks, 48)->born, block.born);
    heap_profile_resize(&profile, 96, 5000); /* of nobody */
    for (unsigned i = 0; i < HISTOGRAM_SIZE; i++) {
        assert_sum(profile.lifetimes.buckets[i], (struct site_sum){0, 0});
    }
}

static void sites_are_found_again(void **state) {
    (void)state;
    unsigned before = 0, after = 0;
    site_each(&profile.sites, count_site, &before);
    for (uint64_t i = 0; i < 20000; i++) {
        assert_non_null(site_find(&profile.sites, (uint64_t[]){i, i * i, 1}, 3, 0, 0));
    }
    for (uint64_t i = 0; i < 20000; i += 7) {
        struct site *site = site_find(&profile.sites, (uint64_t[]){i, i * i, 1}, 3, 0, 0);
        assert_int_equal(site->frames[1], i * i);
    }
    site_each(&profile.sites, count_site, &after);
    assert_int_equal(after, before + 20000);
    for (unsigned i = 0; i < SITES; i++) {
        assert_ptr_equal(site_number(i), sites[i]);
    }
}

static void blocks_are_found_while_others_go(void **state) {
    (void)state;
    static bool is_in[4096];
    struct live_table table = {0};
    struct random random = unit_random();
    struct live_block block;
    assert_null(live_table_find(&table, 16));
    assert_false(live_table_take(&table, 16, &block));
    for (unsigned i = 0; i < 200000; i++) {
        unsigned number = (unsigned)random_below(&random, ARRAY_LENGTH(is_in));
        uintptr_t address = 16 + (uintptr_t)number * 16;
        const struct live_block *found = live_table_find(&table, address);
        assert_int_equal(found != NULL, is_in[number]);
        if (found) {
            assert_int_equal(found->size, number);
            assert_true(live_table_take(&table, address, &block));
            assert_int_equal(block.address, address);
        } else {
            block = (struct live_block){.address = address, .size = number};
            assert_true(live_table_put(&table, &block));
        }
        is_in[number] = !is_in[number];
    }
    live_table_empty(&table);
}

int main(void) {
    expect_allocator();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_peak_are_those_of_a_model),
        cmocka_unit_test(histograms_hold_everything),
        cmocka_unit_test(growth_is_counted_from_a_mark),
        cmocka_unit_test(history_gets_coarser),
        cmocka_unit_test(what_the_heap_never_held_is_no_peak),
        cmocka_unit_test(what_lives_is_no_more_than_the_peak),
        cmocka_unit_test(what_takes_its_place_ends_a_block),
        cmocka_unit_test(a_block_with_another_size_is_the_same),
        cmocka_unit_test(sites_are_found_again),
        cmocka_unit_test(blocks_are_found_while_others_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
