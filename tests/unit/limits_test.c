#include "pages/limits.h"

#include <sys/stat.h>
#include <unistd.h>

#include "os/cgroup.h"
#include "os/memory.h"
#include "os/confined.h"
#include "os/machine.h"
#include "pages/metadata.h"
#include "pages/purge.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { MIB = 1 << 20, SPANS_MAX = 4096, SPAN_SLICES = 20 };

static char root[] = "/tmp/primalloc-limits-XXXXXX";
static struct span *spans[SPANS_MAX];

static void test_map_budget(void **state) {
    (void)state;
    unsigned long count = 65530;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file) {
        assert_int_equal(fscanf(file, "%lu", &count), 1);
        fclose(file);
    }
    errno = ERRNO_MARK;
    assert_int_equal(limits_map_budget(), count / 4);
    assert_int_equal(limits_map_budget(), count / 4);
    assert_int_equal(errno, ERRNO_MARK);
}

static void write_text(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s", path);
}

static void make_directory(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    CHECK(mkdir(path, 0755) == 0, "cannot make %s", path);
}

/* Without options the group's limit counts: 85 % of it, or memory.high. */
static void test_group(void **state) {
    (void)state;
    make_directory("proc");
    make_directory("proc/self");
    make_directory("cgroup");
    assert_false(limits_would_press(SIZE_MAX - 1));
    write_text("proc/self/cgroup", "0::/\n");
    write_text("proc/self/mountinfo", "1 1 0:1 / /cgroup rw - cgroup2 cgroup2 rw\n");
    write_text("cgroup/memory.max", "1000000000\n");
    limits_look_now(root);
    assert_false(limits_would_press(850000000));
    assert_true(limits_would_press(850000001));
    write_text("cgroup/memory.high", "900000000\n");
    limits_look_now(root);
    assert_true(limits_would_press(850000001));
    write_text("cgroup/memory.high", "500000000\n");
    limits_look_now(root);
    assert_false(limits_would_press(500000000));
    assert_true(limits_would_press(500000001));
    limits_look_now("/nowhere"); /* as in a jail, or without a descriptor left */
    assert_true(limits_would_press(500000001));
    options.soft_limit = 600000000;
    assert_false(limits_would_press(600000000));
    assert_true(limits_would_press(600000001));
    options.soft_limit = 0;
    assert_false(limits_would_press(SIZE_MAX - 1));
    options.soft_limit = OPTION_AUTO;
    write_text("cgroup/memory.high", "max\n");
    write_text("cgroup/memory.max", "max\n");
    limits_look_now(root);
    assert_false(limits_would_press(SIZE_MAX - 1));
}

/* The group is looked at when the heap is no longer small, and then no oftener than it may be. */
static void test_looks(void **state) {
    (void)state;
    uint64_t start = machine_clock_ms();
    store_relaxed(&limits.next_look_ms, 0); /* as at the process's start */
    store_relaxed(&limits.is_look_due, false);
    limits_note_time(start);
    limits_look();
    assert_int_equal(limits.next_look_ms, 0); /* the first look is for growth to make */
    limits_note_growth(LIMITS_LOOK_SIZE);
    limits_look();
    assert_int_equal(limits.next_look_ms, 0);
    limits_note_growth(LIMITS_LOOK_SIZE + 1);
    limits_look();
    uint64_t next = limits.next_look_ms;
    assert_true(next >= start + LIMITS_LOOK_INTERVAL_MS);
    limits_note_growth(LIMITS_LOOK_SIZE + 1);
    limits_look();
    limits_note_time(next - 1);
    limits_look();
    assert_int_equal(limits.next_look_ms, next);
    store_relaxed(&limits.group, 4711);
    store_relaxed(&limits.next_look_ms, start);
    limits_note_time(start);
    limits_look();
    assert_true(limits.next_look_ms >= start + LIMITS_LOOK_INTERVAL_MS);
    assert_true(limits.group != 4711 || cgroup_memory_limits("").hard == CGROUP_UNKNOWN);
    store_relaxed(&limits.next_look_ms, start + 1000 * LIMITS_LOOK_INTERVAL_MS);
    limits_note_time(start); /* the clock was set back */
    limits_look();
    assert_true(limits.next_look_ms < start + 500 * LIMITS_LOOK_INTERVAL_MS);
    store_relaxed(&limits.group, LIMITS_NONE);
}

static size_t held_bytes(void) {
    return (page_heap.mapped_slices - page_heap.clean.slice_count) * SLICE_SIZE +
           metadata_mapped_bytes();
}

static struct span *take(size_t slice_count) {
    struct span *span = page_heap_allocate(slice_count, 0);
    if (span) {
        span_publish(span, SPAN_LARGE, 1);
        memset((void *)span->address, 1, span_size(span));
    }
    return span;
}

static void give_back(struct span *span) {
    span_withdraw(span);
    page_heap_free(span, SPAN_DIRTY);
}

/* Address space and its descriptors for all that follows, so that these do not grow meanwhile. */
static int make_room(void **state) {
    (void)state;
    struct span *span = page_heap_allocate(128 * MIB / SLICE_SIZE, 0);
    CHECK(span != NULL, "no address space");
    page_heap_free(span, SPAN_CLEAN);
    return 0;
}

static size_t take_until_refused(void) {
    size_t count = 0;
    while (count < SPANS_MAX && (spans[count] = take(SPAN_SLICES)) != NULL) {
        count++;
    }
    assert_true(count < SPANS_MAX);
    return count;
}

/* Full to the last span; holes are enough for a span that fits none of them. */
static void test_hard_limit(void **state) {
    (void)state;
    const size_t span_size_max = SPAN_SLICES * SLICE_SIZE;
    purge_all(0);
    options.hard_limit = held_bytes() + 12 * MIB;
    for (int round = 0; round < 3; round++) {
        size_t count = take_until_refused();
        assert_true(held_bytes() <= options.hard_limit);
        assert_true(held_bytes() > options.hard_limit - span_size_max);
        assert_false(page_heap_grow(spans[count - 1], 2 * SPAN_SLICES));
        assert_int_equal(spans[count - 1]->slice_count, SPAN_SLICES);
        for (size_t i = 0; i < count; i += 2) {
            give_back(spans[i]);
        }
        struct span *large = take((count / 2 - 1) * SPAN_SLICES);
        assert_non_null(large);
        assert_true(held_bytes() <= options.hard_limit);
        give_back(large);
        for (size_t i = 1; i < count; i += 2) {
            give_back(spans[i]);
        }
    }
    options.hard_limit = 0;
    struct span *beyond = take(16 * MIB / SLICE_SIZE);
    assert_non_null(beyond);
    give_back(beyond);
    purge_all(0);
}

/* At the limit, a block grows in place into what others gave back. */
static void test_growth_at_the_hard_limit(void **state) {
    (void)state;
    purge_all(0);
    struct span *low = take(2 * MIB / SLICE_SIZE);
    struct span *other = take(2 * MIB / SLICE_SIZE);
    assert_true(span_state(span_of_slice(span_end(other))) == SPAN_CLEAN);
    options.hard_limit = held_bytes();
    give_back(low); /* dirty: counts until it is purged */
    assert_true(page_heap_grow(other, 4 * MIB / SLICE_SIZE));
    assert_true(held_bytes() <= options.hard_limit);
    assert_false(page_heap_grow(other, 4 * MIB / SLICE_SIZE + 1));
    options.hard_limit = 0;
    give_back(other);
    purge_all(0);
}

/* Above the soft limit what is freed goes back at once, but for the slack; below it stays. */
static void test_soft_limit(void **state) {
    (void)state;
    enum { COUNT = 64, SLICES = MIB / SLICE_SIZE };
    purge_all(0);
    options.soft_limit = held_bytes() + COUNT / 2 * MIB;
    for (size_t i = 0; i < COUNT; i++) {
        spans[i] = take(SLICES);
        assert_int_equal(limits_are_pressed(), held_bytes() > options.soft_limit);
    }
    assert_true(limits_are_pressed());
    for (size_t i = 0; i < COUNT; i += 2) {
        uintptr_t address = spans[i]->address;
        bool was_pressed = limits_are_pressed();
        give_back(spans[i]);
        assert_true(!was_pressed || page_heap.dirty.slice_count * SLICE_SIZE <= limits_slack());
        assert_true(!was_pressed || unit_resident((void *)address, MIB) == 0);
    }
    assert_false(limits_are_pressed());
    give_back(spans[1]);
    assert_true(page_heap.dirty.slice_count >= SLICES);
    assert_int_equal(held_bytes() > options.soft_limit, false);
    for (size_t i = 3; i < COUNT; i += 2) {
        give_back(spans[i]);
    }
    options.soft_limit = OPTION_AUTO;
    purge_all(0);
}

/* Who holds more than a limit that was lowered is pressed, though nothing more is taken; and no
 * longer when it is raised. */
static void test_soft_limit_set_later(void **state) {
    (void)state;
    purge_all(0);
    struct span *kept = take(8 * MIB / SLICE_SIZE);
    struct span *reused = take(8 * MIB / SLICE_SIZE);
    for (int i = 0; i < 2; i++) {
        give_back(reused);
        reused = take(8 * MIB / SLICE_SIZE);
        assert_false(limits_are_pressed());
        options.soft_limit = 10 * MIB;
        purge_tick();
        assert_true(limits_are_pressed());
        options.soft_limit = OPTION_AUTO;
        purge_tick();
    }
    options.soft_limit = 10 * MIB;
    purge_tick();
    give_back(reused);
    assert_true(page_heap.dirty.slice_count * SLICE_SIZE <= limits_slack());
    options.soft_limit = OPTION_AUTO;
    give_back(kept);
    purge_all(0);
    assert_false(limits_are_pressed());
}

/* What an aligned span is cut from counts as free, also while its ends go back one by one. */
static void test_held_peak_of_a_pressed_process(void **state) {
    (void)state;
    purge_all(0);
    struct span *before = take(MIB / SLICE_SIZE);
    options.soft_limit = MIB;
    purge_tick();
    assert_true(limits_are_pressed());
    store_relaxed(&limits.held_peak, 0);
    struct span *aligned = page_heap_allocate(1, 16 * MIB);
    assert_non_null(aligned);
    assert_int_equal(limits.held_peak, held_bytes());
    page_heap_free(aligned, SPAN_CLEAN);
    options.soft_limit = OPTION_AUTO;
    give_back(before);
    purge_all(0);
}

/* Locked pages stay: they are not asked for at each free, until others have come. */
static void test_soft_limit_with_locked_pages(void **state) {
    (void)state;
    purge_all(0);
    options.soft_limit = MIB;
    struct span *locked = take(8 * MIB / SLICE_SIZE);
    struct span *between = take(MIB / SLICE_SIZE);
    struct span *other = take(4 * MIB / SLICE_SIZE);
    uintptr_t address = locked->address;
    if (is_emulated() || !unit_lock_pages((void *)address, 8 * MIB)) {
        options.soft_limit = OPTION_AUTO;
        skip(); /* this process may not lock so much */
    }
    give_back(locked);
    size_t held = page_heap.dirty.slice_count;
    uint64_t before = load_relaxed(&memory_counts.purge_calls);
    for (int i = 0; i < 10; i++) {
        give_back(take(MIB / SLICE_SIZE));
    }
    assert_int_equal(load_relaxed(&memory_counts.purge_calls), before);
    give_back(other);
    assert_int_equal(page_heap.dirty.slice_count, held);
    assert_true(unit_unlock_pages((void *)address, 8 * MIB));
    give_back(between);
    options.soft_limit = OPTION_AUTO;
    purge_all(0);
}

/* A process that is about to be pressed gives dirty pages back before it touches clean ones. */
static void test_growth_to_the_soft_limit(void **state) {
    (void)state;
    purge_all(0);
    for (size_t i = 0; i < 16; i++) {
        spans[i] = take(MIB / SLICE_SIZE);
    }
    options.soft_limit = held_bytes() + MIB;
    for (size_t i = 0; i < 16; i += 2) {
        give_back(spans[i]);
    }
    assert_true(page_heap.dirty.slice_count * SLICE_SIZE == 8 * MIB);
    struct span *large = take(6 * MIB / SLICE_SIZE);
    assert_true(held_bytes() <= options.soft_limit);
    assert_true(page_heap.dirty.slice_count * SLICE_SIZE <= limits_slack());
    assert_false(limits_are_pressed());
    give_back(large);
    purge_all(0);
    options.soft_limit = held_bytes() + SLICE_SIZE;
    assert_true(page_heap_grow(spans[15], spans[15]->slice_count + 2) == SPAN_CLEAN);
    assert_true(limits_are_pressed());
    for (size_t i = 1; i < 16; i += 2) {
        give_back(spans[i]);
    }
    options.soft_limit = OPTION_AUTO;
    purge_all(0);
}

/* Who may not ask anymore goes by what is known. */
static void test_confined(void **state) {
    (void)state;
    write_text("cgroup/memory.high", "500000000\n");
    limits_look_now(root);
    confined_begin();
    limits_look_now(root);
    assert_false(limits_would_press(500000000));
    assert_true(limits_would_press(500000001));
}

static void remove_tree(void) {
    static const char *const names[] = {"cgroup/memory.max",
                                        "cgroup/memory.high",
                                        "proc/self/cgroup",
                                        "proc/self/mountinfo",
                                        "proc/self",
                                        "proc",
                                        "cgroup",
                                        "."};
    char path[128];
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        remove(i + 1 < ARRAY_LENGTH(names) ? path : root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_budget),
        cmocka_unit_test(test_looks),
        cmocka_unit_test(test_group),
        cmocka_unit_test(test_hard_limit),
        cmocka_unit_test(test_growth_at_the_hard_limit),
        cmocka_unit_test(test_soft_limit),
        cmocka_unit_test(test_soft_limit_set_later),
        cmocka_unit_test(test_held_peak_of_a_pressed_process),
        cmocka_unit_test(test_soft_limit_with_locked_pages),
        cmocka_unit_test(test_growth_to_the_soft_limit),
        cmocka_unit_test(test_confined),
    };
    CHECK(mkdtemp(root) != NULL, "cannot make %s", root);
    int failed = cmocka_run_group_tests_name("limits", tests, make_room, NULL);
    remove_tree();
    return failed;
}
