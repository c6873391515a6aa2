/* Calls that look at the whole heap or change how it works; and how a sequence is played. */
#include <errno.h>
#include <mcheck.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/calls.h"
#include "fuzz/standard.h"

enum { CALLS_LEAST = 100, CALLS_MOST = 600 };

static void discard(const char *text, size_t length, void *context) {
    (void)text;
    *(size_t *)context += length;
}

static void call_statistics(struct player *player) {
    uint32_t which = feed_below(&player->feed, 32768); /* mostly none: they look at all spans */
    shadow_note(player, "statistics", NULL, which, 0);
    struct prim_stats stats;
    size_t length = 0;
    if (which < 8) {
        prim_stats_write((enum prim_stats_form)(which % 4), discard, &length);
        if (length == 0) finding(player, "there are no statistics");
    } else if (which < 16) {
        struct prim_class_stats classes[4];
        prim_stats_classes(classes, 4, sizeof classes[0]);
    } else if (which < 32) {
        prim_mallinfo2();
    } else if (which < 48) {
        prim_stats_get(&stats, sizeof stats);
        uint64_t sum = stats.live_bytes + stats.large_bytes + stats.cached_bytes +
                       stats.partial_bytes + stats.uncarved_bytes + stats.asleep_bytes +
                       stats.dirty_bytes + stats.clean_bytes + stats.heap_bytes +
                       stats.heap_free_bytes;
        if (sum != stats.mapped_bytes && !player->heaps[0].is_shared) {
            finding(player, "the statistics add up to %llu of %llu bytes", (unsigned long long)sum,
                    (unsigned long long)stats.mapped_bytes);
        }
    }
}

static void call_trim(struct player *player) {
    uint32_t which = feed_below(&player->feed, 256);
    shadow_note(player, "malloc_trim", NULL, which, 0);
    if (which == 0) prim_malloc_trim(0);
    if (which == 1) prim_malloc_trim(1 << 20);
}

/* The options that may change, and to what; the first value is the default. */
static const struct {
    const char *name;
    uint64_t values[4];
} settings[] = {
    {"shards", {0, 1, 2, 5}},
    {"trim_threshold", {PRIM_OPTION_AUTO, 0, 1 << 20, 1 << 22}},
    {"top_pad", {0, 0, 1 << 16, 4 << 20}},
    {"mmap_threshold", {PRIM_OPTION_AUTO, 5000, 1 << 17, PRIM_OPTION_AUTO}},
    {"mmap_max", {65536, 0, 3, 65536}},
    {"soft_limit", {PRIM_OPTION_AUTO, 1 << 20, 8 << 20, 0}},
    {"perturb", {0, 1, 255, 85}},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

static void set(struct player *player, size_t which, uint64_t value) {
    if (prim_option_set(settings[which].name, value) != 0) {
        finding(player, "option %s does not take %llu", settings[which].name,
                (unsigned long long)value);
    }
}

static void call_option(struct player *player) {
    if (feed_below(&player->feed, 8) != 0) return;
    uint32_t which = feed_below(&player->feed, SETTINGS);
    uint64_t value = settings[which].values[feed_below(&player->feed, 4)];
    shadow_note(player, settings[which].name, NULL, (size_t)value, 0);
    player->has_changed_settings = true;
    set(player, which, value);
}

static void call_mallopt(struct player *player) {
    int parameter = (int)feed_below(&player->feed, 24) - 12;
    int value = (int)feed_take(&player->feed, 2);
    if (feed_below(&player->feed, 16) != 0) return;
    shadow_note(player, "mallopt", NULL, (size_t)(parameter + 12), (size_t)value);
    player->has_changed_settings = true;
    prim_mallopt(parameter, value);
}

const struct choice setting_choices[] = {
    {call_statistics, 2}, {call_trim, 1}, {call_option, 2}, {call_mallopt, 1}, {NULL, 0},
};

enum { CHOICES_MOST = 1024 };
static play_call *table[CHOICES_MOST]; /* each call as often as it weighs */
static size_t table_count;

static void add_choices(const struct choice *choices) {
    for (; choices->call; choices++) {
        for (unsigned i = 0; i < choices->weight && table_count < CHOICES_MOST; i++) {
            table[table_count++] = choices->call;
        }
    }
}

/* Of blocks freed twice and pointers that are not ours the library tells whoever asked, at every
 * setting: here none may be but those that are meant. */
static void hear_error(int error, const char *message, void *context) {
    (void)context;
    if (error == EINVAL && !is_misuse) finding(player_here, "%s", message);
}

/* The level `ignore` keeps its faults to itself: mcheck's handler hears of them. */
static void hear_fault(enum mcheck_status status) {
    if (!is_misuse) finding(player_here, "a check found fault %d", (int)status);
}

static void listen(void) {
    const char *check = getenv("PRIMALLOC_CHECK");
    prim_error_set(hear_error, NULL);
    if (check && strcmp(check, "ignore") == 0 && under_test_mcheck(hear_fault) != 0) abort();
}

void play_start(void) {
    const char *misuse = getenv("FUZZ_MISUSE");
    const char *limit = getenv("PRIMALLOC_HARD_LIMIT");
    const char *check = getenv("PRIMALLOC_CHECK");
    rules.may_misuse = !misuse || strcmp(misuse, "0") != 0;
    rules.may_run_out = limit && strcmp(limit, "0") != 0;
    rules.has_zones = check && strcmp(check, "off") != 0;
    add_choices(family_choices);
    add_choices(heap_choices);
    add_choices(setting_choices);
    uint64_t value;
    if (prim_option_get("hard_limit", &value) != 0) abort();
    listen();
}

void play(struct player *player, const uint8_t *bytes, size_t size, uint64_t salt) {
    player_here = player;
    player->sequences++;
    player->feed = feed_from(bytes, size, salt);
    uint64_t first = player->calls;
    while (player->calls - first < CALLS_LEAST ||
           (player->feed.left > 0 && player->calls - first < CALLS_MOST)) {
        if (player->count >= BLOCKS_MOST - 1) {
            play_release(player, shadow_take(player, 0));
        } else {
            table[feed_below(&player->feed, (uint32_t)table_count)](player);
        }
    }
}

void play_end(struct player *player, size_t blocks_kept) {
    for (size_t i = 0; i < HEAPS_MOST; i++) {
        struct heap *heap = &player->heaps[i];
        if (!heap->name || heap->is_shared) continue;
        bool blocks_stay = feed_below(&player->feed, 2);
        shadow_note(player, blocks_stay ? "heap_delete" : "heap_destroy", heap->name, 0, 0);
        shadow_heap_ends(player, heap->name, blocks_stay);
        (blocks_stay ? prim_heap_delete : prim_heap_destroy)(heap->name);
        *heap = (struct heap){0};
    }
    for (size_t i = 0; player->has_changed_settings && i < SETTINGS; i++) {
        set(player, i, settings[i].values[0]);
    }
    player->has_changed_settings = false;
    while (player->count > blocks_kept) {
        size_t index = feed_below(&player->feed, (uint32_t)player->count);
        play_release(player, shadow_take(player, index));
    }
}
