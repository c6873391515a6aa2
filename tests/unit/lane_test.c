#include "pages/lane.h"

#include <sched.h>

#include "base/bits.h"
#include "os/alone.h"
#include "os/machine.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { HEAP = 160 << 20, SPANS = 1024, EXTENTS = 1000 }; /* a heap that is worth all lanes */

static unsigned processors[2]; /* two that we may run on, with lanes of their own */
static bool has_two;
static uintptr_t taken[2][SPANS]; /* by which lane */

static void run_on(unsigned processor) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "cannot be pinned");
    has_two = has_two && machine_processor() == processor; /* an emulator may not know */
}

static void find_processors(void) {
    cpu_set_t allowed;
    unsigned count = 0;
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "no affinity");
    for (unsigned i = 0; i < LANE_MOST && count < 2; i++) {
        if (CPU_ISSET(i, &allowed)) {
            processors[count++] = i;
        }
    }
    has_two = count == 2;
}

static struct span *take(size_t slice_count) {
    struct span *span = page_heap_allocate(slice_count, 0);
    CHECK(span && span->is_zero, "no fresh memory");
    return span;
}

static uintptr_t block_of(uintptr_t address) {
    return bits_round_down(address, HUGE_SIZE);
}

/* To be called first: a second thread is remembered. */
static void test_one_thread_needs_none(void **state) {
    (void)state;
    struct span *span = take(HEAP / SLICE_SIZE);
    if (process_is_alone()) {
        assert_int_equal(lane_count(), 1);
    }
    page_heap_free(span, SPAN_CLEAN);
}

static void take_by_turns(unsigned number) {
    (void)number;
    CHECK(lane_count() == LANE_MOST, "%u lanes in a large heap", lane_count());
    for (unsigned i = 0; i < SPANS && has_two; i++) {
        for (unsigned lane = 0; lane < 2; lane++) {
            run_on(processors[lane]);
            taken[lane][i] = take(lane ? 4 : 2)->address; /* they end their blocks at other times */
        }
    }
}

/* No block of 2 MiB holds spans of both. */
static void test_lanes_are_apart(void **state) {
    (void)state;
    find_processors();
    unit_run_threads(1, take_by_turns);
    if (!has_two) {
        skip();
    }
    for (unsigned i = 0; i < SPANS; i++) {
        for (unsigned j = 0; j < SPANS; j++) {
            CHECK(block_of(taken[0][i]) != block_of(taken[1][j]), "%#lx and %#lx share a block",
                  taken[0][i], taken[1][j]);
        }
    }
}

/* Takes spans of four slices until so many are left of the block that the last of them lies in, and
 * returns where that ends. */
static uintptr_t take_until(size_t left) {
    uintptr_t end;
    do {
        end = span_end(take(4));
    } while (end % HUGE_SIZE != (HUGE_SIZE - left * SLICE_SIZE) % HUGE_SIZE);
    return end;
}

/* A large block, which no lane has, leaves them where they are. */
static void take_a_large_one(unsigned number) {
    (void)number;
    for (unsigned lane = 0; lane < 2; lane++) { /* what the first has left ends at the second */
        run_on(processors[lane]);
        take_until(0);
        take(4);
    }
    run_on(processors[0]);
    uintptr_t end = span_end(take(4));
    take(LANE_SLICES);
    uintptr_t next = take(4)->address;
    CHECK(!has_two || next == end, "a lane goes on at %#lx, not at %#lx", next, end);
}

static void test_large_blocks_have_none(void **state) {
    (void)state;
    unit_run_threads(1, take_a_large_one);
}

/* Slices that went back are taken before a lane goes on in another block, though another lane,
 * where nobody is any more, has less left. */
static void fill_a_hole(unsigned number) {
    enum { SMALLER = 32, HOLE = 16 };
    struct span *hole[HOLE];
    (void)number;
    for (unsigned lane = 0; lane < 2; lane++) { /* two blocks that follow each other */
        run_on(processors[1 - lane]);
        take_until(0);
        take(4);
    }
    run_on(processors[1]);
    take_until(SMALLER);
    run_on(processors[0]);
    for (unsigned i = 0; i < HOLE; i++) {
        hole[i] = take(4);
    }
    uintptr_t address = hole[0]->address;
    take(4);
    for (unsigned i = 0; i < HOLE; i++) {
        page_heap_free(hole[i], SPAN_CLEAN);
    }
    take_until(0);
    uintptr_t next = take(4)->address;
    CHECK(!has_two || next == address, "%#lx is taken, and %#lx left", next, address);
}

static void test_holes_are_filled(void **state) {
    (void)state;
    unit_run_threads(1, fill_a_hole);
}

/* Of blocks that lanes have left nearly all is in use. */
static void leave_little(unsigned number) {
    (void)number;
    static struct unit_extent extents[EXTENTS];
    struct random random = unit_random();
    size_t total = 0;
    while (total < HEAP / SLICE_SIZE) {
        size_t slices = 1 + random_below(&random, 15);
        run_on(processors[random_below(&random, 2)]);
        take(slices);
        total += slices;
    }
    size_t count = unit_extents(&page_heap.clean, extents, EXTENTS);
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_left = extents[i].slice_count < LANE_SLICES && !lane_is_begun(extents[i].address);
        left += is_left ? extents[i].slice_count : 0;
    }
    CHECK(left <= total / 32, "%zu slices are left of %zu", left, total);
}

static void test_little_is_left(void **state) {
    (void)state;
    if (!has_two) {
        skip();
    }
    unit_run_threads(1, leave_little);
}

int main(void) {
    options.purge = 0;
    options.thp = THP_NEVER;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread_needs_none),  cmocka_unit_test(test_lanes_are_apart),
        cmocka_unit_test(test_large_blocks_have_none), cmocka_unit_test(test_holes_are_filled),
        cmocka_unit_test(test_little_is_left),
    };
    return cmocka_run_group_tests_name("lane", tests, NULL, NULL);
}
