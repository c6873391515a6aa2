/* qemu's user mode, below which programs of other machines run in containers. It takes for unmapped
 * what mremap left behind with DONTUNMAP: it can be read and written, but system calls refuse it.
 * Here it is unmapped. And before 7.2 it says of all advice that it was taken, and does nothing.
 * The library asks by kernel_call, which this program defines. */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <primalloc.h>

#include "objects/allocate.h"
#include "objects/maintenance.h"
#include "os/kernel.h"
#include "os/memory.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"
#include "settings/options.h"
#include "unit/kernel_words.h"
#include "unit/unit.h"

enum { DONTUNMAP = 4 };

long kernel_call(long number, ...) {
    long words[6];
    TAKE_KERNEL_WORDS(words, number);
    if (number == SYS_madvise) {
        return 0;
    }
    long answer = syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (number == SYS_mremap && (words[3] & DONTUNMAP) && answer == words[4]) {
        CHECK(munmap((void *)words[0], (size_t)words[1]) == 0, "the source was not there");
    }
    return answer;
}

static void test_source_stays_mapped(void **state) {
    (void)state;
    size_t size = 8 * memory_page_size();
    char *from = memory_map(size);
    char *to = memory_map(size);
    assert_int_equal(mapping_may_move(), memory_page_size() <= SLICE_SIZE);
    memset(from, 'f', size);
    errno = ERRNO_MARK;
    bool is_moved = memory_move(from, to, size);
    assert_int_equal(errno, ERRNO_MARK);
    if (!is_moved) {
        skip(); /* a kernel before 5.7 */
    }
    assert_true(load_relaxed(&memory_loses_source));
    assert_false(mapping_may_move());
    assert_true(memory_is_one_mapping(from, size));
    assert_true(unit_is_filled(from, size, 0));
    assert_true(unit_is_filled(to, size, 'f'));
    memset(from, 'n', size);
    assert_true(unit_is_filled(to, size, 'f'));
    memory_unmap(from, size);
    memory_unmap(to, size);
}

static void test_pages_that_stay(void **state) {
    (void)state;
    size_t page = memory_page_size();
    char *bytes = memory_map(page);
    memset(bytes, 'p', page);
    errno = ERRNO_MARK;
    assert_false(memory_purge(bytes, page));
    assert_int_equal(errno, ERRNO_MARK);
    assert_true(unit_is_filled(bytes, page, 'p'));
    assert_int_equal(load_relaxed(&memory_counts.purged_bytes), 0);
    memory_unmap(bytes, page);
}

/* What was given back, and is there all the same, does not come as zeroed. */
static void test_calloc_is_zero(void **state) {
    (void)state;
    enum { SIZE = 3 << 20, SMALL = 3000, COUNT = 1000 };
    static char *blocks[COUNT];
    for (int round = 0; round < 2; round++) {
        char *block = prim_calloc(1, SIZE);
        assert_true(unit_is_filled(block, SIZE, 0));
        memset(block, 'b', SIZE);
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = prim_calloc(1, SMALL);
            assert_true(unit_is_filled(blocks[i], SMALL, 0));
            memset(blocks[i], 's', SMALL);
        }
        for (int i = 0; i < COUNT; i++) {
            prim_free(blocks[i]);
        }
        prim_free(block);
        prim_malloc_trim(0);
    }
}

static struct span *guard;

static void touch_guard(void) {
    *(volatile char *)guard->address = 1;
}

/* Not by advice, which is as good as refused. */
static void test_guards_hold(void **state) {
    (void)state;
    if (memory_page_size() > SLICE_SIZE) {
        skip(); /* part of a page may be somebody's */
    }
    guard = page_heap_allocate(1, 0);
    assert_true(mapping_forbid(guard->address));
    assert_int_equal(unit_signal_of(touch_guard), SIGSEGV);
    assert_true(mapping_allow(guard->address));
    touch_guard();
    page_heap_free(guard, SPAN_DIRTY);
}

/* Where a child starts a thread whose parent had several at the fork qemu dies. So none is ours. */
static void test_no_thread_of_ours(void **state) {
    (void)state;
    enum { MUCH = 48 << 20 };
    options.maintenance = 1;
    options.purge_delay = 10000;
    store_relaxed(&maintenance_least, MAINTENANCE_ALONE);
    store_relaxed(&maintenance_threshold, MAINTENANCE_ALONE);
    char *block = allocate(MUCH);
    memset(block, 'b', MUCH);
    release(block);
    size_t threshold = load_relaxed(&maintenance_threshold);
    assert_true(threshold >= MUCH + MAINTENANCE_ALONE && threshold < SIZE_MAX); /* was asked */
}

int main(void) {
    options.moves = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_stays_mapped), cmocka_unit_test(test_pages_that_stay),
        cmocka_unit_test(test_calloc_is_zero),      cmocka_unit_test(test_guards_hold),
        cmocka_unit_test(test_no_thread_of_ours),
    };
    return cmocka_run_group_tests_name("emulated", tests, NULL, NULL);
}
