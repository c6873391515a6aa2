/* limits.c - see limits.h. */
#include "pages/limits.h"

#include "base/bits.h"
#include "os/cgroup.h"
#include "os/machine.h"
#include "os/text_file.h"
#include "settings/options.h"

enum { MAP_COUNT_DEFAULT = 65530, MAP_COUNT_DIVISOR = 4 };
enum { SLACK_DIVISOR = 256, SLACK_MAX = 1 << 20 };
enum { LOOK_FARTHEST_MS = 2 * LIMITS_LOOK_INTERVAL_MS }; /* threads' clocks differ a bit */

struct limits limits = {.group = LIMITS_NONE};

static size_t soft_limit(void) {
    uint64_t limit = option_now(soft_limit);
    if (limit == OPTION_AUTO) {
        return load_relaxed(&limits.group);
    }
    return limit ? limit : LIMITS_NONE;
}

bool limits_allow(size_t resident_bytes) {
    uint64_t limit = option_now(hard_limit);
    return limit == 0 || resident_bytes <= limit;
}

bool limits_would_press(size_t resident_bytes) {
    return resident_bytes > soft_limit();
}

void limits_note_resident(size_t resident_bytes) {
    if (resident_bytes > load_relaxed(&limits.held_peak)) {
        store_relaxed(&limits.held_peak, resident_bytes);
    }
    limits_note_less(resident_bytes);
}

void limits_note_less(size_t resident_bytes) {
    bool is_pressed = limits_would_press(resident_bytes);
    if (is_pressed != limits_are_pressed()) { /* else the line stays shared */
        store_relaxed(&limits.is_pressed, is_pressed);
    }
}

size_t limits_slack(void) {
    return bits_min(soft_limit() / SLACK_DIVISOR, SLACK_MAX);
}

void limits_look_now(const char *root) {
    struct cgroup_memory memory = cgroup_memory_limits(root);
    uint64_t limit = LIMITS_NONE;
    if (memory.hard != CGROUP_UNLIMITED) {
        limit = memory.hard / 20 * 17;
    }
    if (memory.hard != CGROUP_UNKNOWN) { /* else what is known holds on */
        store_relaxed(&limits.group, bits_min(limit, memory.soft));
    }
}

void limits_note_growth(size_t mapped_bytes) {
    if (mapped_bytes > LIMITS_LOOK_SIZE && option_now(soft_limit) == OPTION_AUTO) {
        store_relaxed(&limits.is_look_due, true);
    }
}

static bool is_time(uint64_t now_ms, uint64_t next_ms) {
    return machine_is_time(now_ms, next_ms, LOOK_FARTHEST_MS);
}

static void look_if_time(uint64_t now_ms) {
    uint64_t next = load_relaxed(&limits.next_look_ms);
    if (is_time(now_ms, next) &&
        compare_exchange_relaxed(&limits.next_look_ms, &next, now_ms + LIMITS_LOOK_INTERVAL_MS)) {
        limits_look_now("");
    }
}

void limits_look_when_due(void) {
    store_relaxed(&limits.is_look_due, false);
    look_if_time(machine_clock_ms());
}

void limits_note_time(uint64_t now_ms) {
    uint64_t next = load_relaxed(&limits.next_look_ms);
    if (next && is_time(now_ms, next)) {
        store_relaxed(&limits.is_look_due, true);
    }
}

size_t limits_map_budget(void) {
    static _Atomic size_t known_budget; /* (atomic: any thread computes the same value) */
    size_t budget = load_relaxed(&known_budget);
    if (PRIM_UNLIKELY(budget == 0)) {
        uint64_t count;
        if (!text_file_number("/proc/sys/vm/max_map_count", &count)) {
            count = MAP_COUNT_DEFAULT; /* no /proc here */
        }
        budget = bits_max(count / MAP_COUNT_DIVISOR, 1);
        store_relaxed(&known_budget, budget);
    }
    return budget;
}
