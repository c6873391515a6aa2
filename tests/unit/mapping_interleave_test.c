/* What other threads may do while one asks the system about mappings, moves them, or gives pages
 * back. The library does all by kernel_call, which this program defines: so a test acts in just
 * that moment. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "objects/allocate.h"
#include "objects/arena.h"
#include "objects/heap.h"
#include "os/kernel.h"
#include "os/memory.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "pages/recycle.h"
#include "settings/options.h"
#include "unit/kernel_words.h"
#include "unit/unit.h"

static void (*behind_look)(
    void);                     /* called once, when mappings were looked at, or at 2 MiB of them */
static void (*at_move)(void);  /* called once, before pages are moved */
static void (*at_purge)(void); /* called once, before pages go back */

static void act(void (**action)(void)) {
    void (*once)(void) = *action;
    if (once) {
        *action = NULL;
        once();
    }
}

/* An older kernel, without guards in the page tables. */
static bool is_guard(long number, long advice) {
    return number == SYS_madvise && (advice == 102 || advice == 103);
}

long kernel_call(long number, ...) {
    long words[6];
    TAKE_KERNEL_WORDS(words, number);
    if (is_guard(number, words[2])) {
        errno = EINVAL;
        return -1;
    }
    if (number == SYS_mremap && words[3] & MREMAP_FIXED) {
        act(&at_move);
    }
    if (number == SYS_madvise && words[2] == MADV_DONTNEED) {
        act(&at_purge);
    }
    long result = syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (number == SYS_mremap && words[1] == HUGE_SIZE && words[3] == 0) {
        int saved_errno = errno;
        act(&behind_look);
        errno = saved_errno;
    }
    return result;
}

static struct span *span;
static uintptr_t guard;

static void forbid(void) {
    CHECK(mapping_forbid(guard), "no guard");
}

/* Between the look that found one mapping and the note of it another thread cuts that. */
static void test_a_guard_ends_though_its_cut_is_forgotten(void **state) {
    (void)state;
    span = page_heap_allocate(HUGE_SIZE / SLICE_SIZE, HUGE_SIZE);
    memset((void *)span->address, 1, span_size(span));
    guard = span->address + 20 * SLICE_SIZE;
    behind_look = forbid;
    mapping_note_advice(span->address, span_end(span));
    assert_null(behind_look);
    assert_true(mapping_allow(guard));
    *(volatile char *)guard = 1;
    page_heap_free(span, SPAN_DIRTY);
}

static void *take_slices(void *slices) {
    return page_heap_allocate((size_t)slices, 0);
}

enum { DONOR = 256, WANTED = 128 };

static pthread_t other;

static void have_another_allocate(void) {
    CHECK(pthread_create(&other, NULL, take_slices, (void *)(size_t)WANTED) == 0, "no thread");
    usleep(100000); /* so that it meets the limit; else the test tells nothing, and passes */
}

/* What is moved counts as in use; who meets a limit meanwhile gets its memory all the same. */
static void test_a_limit_waits_for_what_is_moved(void **state) {
    (void)state;
    if (!mapping_may_move()) {
        skip();
    }
    purge_all(0);
    struct span *donor = page_heap_allocate(DONOR, 0);
    struct span *gap = page_heap_allocate(1, 0);
    memset((void *)donor->address, 1, span_size(donor));
    page_heap_free(donor, SPAN_DIRTY);
    struct span *target = page_heap_allocate(2 * DONOR, 0);
    options.hard_limit = page_heap_resident_bytes() + SLICE_SIZE;
    at_move = have_another_allocate;
    struct span_part part = {target->address, target->slice_count};
    assert_true(recycle_into(target, part) > 0);
    void *taken = NULL;
    assert_int_equal(pthread_join(other, &taken), 0);
    options.hard_limit = 0;
    assert_non_null(taken);
    page_heap_free(taken, SPAN_DIRTY);
    page_heap_free(target, SPAN_DIRTY);
    page_heap_free(gap, SPAN_DIRTY);
    assert_int_equal(unit_slices_in_use(), 0);
}

static struct arena *arena;
static unsigned looks;

/* No lock is held: so may another thread look, and a fork's child begin. */
static void look_at_counts(void) {
    const struct arena_counts *counts = &arena->counts;
    CHECK(counts->total_bytes >= counts->live_bytes, "%zu bytes live of %zu that ever were",
          counts->live_bytes, counts->total_bytes);
    CHECK(counts->area_bytes >= counts->live_bytes, "%zu bytes live in areas of %zu",
          counts->live_bytes, counts->area_bytes);
    looks++;
}

/* Before a block of an arena grows into clean pages, dirty ones may go back. */
static void test_counts_of_an_arena_go_together(void **state) {
    (void)state;
    enum { SIZE = 3 << 20, LESS = 1 << 20 };
    heap_ensure();
    arena = arena_create();
    struct span *donor = page_heap_allocate(DONOR, 0);
    struct span *gap = page_heap_allocate(1, 0);
    void *block = arena_allocate_entering(arena, (struct arena_request){.size = SIZE}, NULL);
    block = reallocate(block, LESS);
    purge_all(0);
    page_heap_free(donor, SPAN_DIRTY);
    options.soft_limit = 1;
    at_purge = look_at_counts;
    assert_true(expand(block, SIZE));
    assert_int_equal(looks, 1);
    options.soft_limit = 0;
    assert_int_equal(arena_counts(arena).area_bytes, SIZE);
    page_heap_free(gap, SPAN_DIRTY);
    arena_destroy(arena);
}

int main(void) {
    options.thp = THP_NEVER;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_guard_ends_though_its_cut_is_forgotten),
        cmocka_unit_test(test_a_limit_waits_for_what_is_moved),
        cmocka_unit_test(test_counts_of_an_arena_go_together),
    };
    return cmocka_run_group_tests_name("mapping_interleave", tests, NULL, NULL);
}
