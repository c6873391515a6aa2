#include "pages/mapping.h"

#include "base/bits.h"
#include "os/memory.h"
#include "pages/limits.h"
#include "pages/page_heap.h"
#include "settings/options.h"
#include "traps/fixtures/confine.h"
#include "unit/unit.h"

enum { SLICES = 64 };

static struct span *take(size_t slice_count) {
    struct span *span = page_heap_allocate(slice_count, 0);
    CHECK(span != NULL, "no memory");
    return span;
}

static bool can_move(void) {
    struct span *from = take(1);
    struct span *to = take(1);
    *(char *)from->address = 1;
    bool moved = mapping_move(from->address, to->address, SLICE_SIZE) == SLICE_SIZE;
    page_heap_free(from, SPAN_DIRTY);
    page_heap_free(to, SPAN_DIRTY);
    return moved && mapping_may_move();
}

static size_t lines_of_maps(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    size_t lines = 0;
    for (int c = fgetc(maps); c != EOF; c = fgetc(maps)) {
        lines += c == '\n';
    }
    fclose(maps);
    return lines;
}

static void test_moves_pages(void **state) {
    (void)state;
    if (!can_move()) {
        skip();
    }
    struct span *from = take(SLICES);
    struct span *to = take(SLICES);
    size_t size = span_size(from);
    fill_pattern((void *)from->address, size, 1);
    fill_pattern((void *)to->address, size, 2);
    assert_int_equal(mapping_move(from->address, to->address, size), size);
    assert_int_equal(check_pattern((void *)to->address, size, 1), size);
    assert_int_equal(unit_resident((void *)from->address, size), 0);
    assert_int_equal(*(char *)(from->address + size - 1), 0);
    page_heap_free(from, SPAN_DIRTY);
    page_heap_free(to, SPAN_DIRTY);
}

/* Random moves of random pieces of one area to another and back, so that mappings are cut again
 * and again: the contents follow, and the kernel never holds more mappings than we have cuts. */
static void test_moves_across_cuts(void **state) {
    (void)state;
    if (!can_move()) {
        skip();
    }
    struct random random = unit_random();
    struct span *spans[2] = {take(SLICES), take(SLICES)};
    unsigned char owner[2][SLICES] = {{0}};
    memset((void *)spans[1]->address, 0, span_size(spans[1]));
    for (size_t i = 0; i < SLICES; i++) {
        owner[0][i] = (unsigned char)(i + 1);
        memset((void *)(spans[0]->address + i * SLICE_SIZE), owner[0][i], SLICE_SIZE);
    }
    size_t before = lines_of_maps();
    for (size_t step = 0; step < scaled(300); step++) {
        size_t count = random_below(&random, SLICES) + 1;
        size_t from = random_below(&random, SLICES - count + 1);
        size_t to = random_below(&random, SLICES - count + 1);
        unsigned side = (unsigned)random_below(&random, 2);
        size_t size = count * SLICE_SIZE;
        assert_int_equal(mapping_move(spans[side]->address + from * SLICE_SIZE,
                                      spans[!side]->address + to * SLICE_SIZE, size),
                         size);
        memcpy(&owner[!side][to], &owner[side][from], count);
        memset(&owner[side][from], 0, count);
        for (size_t i = 0; i < 2 * SLICES; i++) {
            const unsigned char *slice =
                (const unsigned char *)(spans[i / SLICES]->address + i % SLICES * SLICE_SIZE);
            CHECK(slice[0] == owner[i / SLICES][i % SLICES] && slice[SLICE_SIZE - 1] == slice[0],
                  "slice %zu of %zu holds %u", i % SLICES, i / SLICES, slice[0]);
        }
    }
    assert_true(lines_of_maps() <= before + 2 * SLICES + 2);
    page_heap_free(spans[0], SPAN_DIRTY);
    page_heap_free(spans[1], SPAN_DIRTY);
}

static void test_leaves_locked_memory_alone(void **state) {
    (void)state;
    struct span *from = take(1);
    struct span *to = take(1);
    *(char *)from->address = 1;
    if (!is_emulated() && unit_lock_pages((void *)from->address, SLICE_SIZE)) {
        assert_int_equal(mapping_move(from->address, to->address, SLICE_SIZE), 0);
        assert_int_equal(*(char *)from->address, 1);
        unit_unlock_pages((void *)from->address, SLICE_SIZE);
    }
    page_heap_free(from, SPAN_DIRTY);
    page_heap_free(to, SPAN_DIRTY);
}

/* Locked pages have no marks in the page tables: as on kernels before 6.13 mappings are cut for
 * guards, and joined when these end. None of the cuts is remembered then. */
static void test_guards_leave_no_cuts(void **state) {
    (void)state;
    enum { COUNT = 32, STEP = 4 };
    struct span *span = take(COUNT);
    if (is_emulated() || !unit_lock_pages((void *)span->address, span_size(span))) {
        skip(); /* this process may not lock so much */
    }
    for (size_t i = STEP; i < COUNT; i += STEP) {
        assert_true(mapping_forbid(span->address + i * SLICE_SIZE));
    }
    assert_false(mapping_moves_well(span->address, span_size(span)));
    for (size_t i = STEP; i < COUNT; i += STEP) {
        assert_true(mapping_allow(span->address + i * SLICE_SIZE));
    }
    assert_true(mapping_moves_well(span->address, span_size(span)));
    unit_unlock_pages((void *)span->address, span_size(span));
    page_heap_free(span, SPAN_DIRTY);
}

/* A sandbox that was closed meanwhile may refuse advice that it was not written for, as sshd's. */
static void allow_where_advice_is_refused(void) {
    static const int calls[] = {SYS_madvise};
    struct span *from = take(1);
    struct span *span = take(1);
    *(char *)from->address = 1;
    mapping_move(from->address, span->address, SLICE_SIZE); /* so it lies at a cut */
    CHECK(mapping_forbid(span->address), "no guard");
    confine(calls, ARRAY_LENGTH(calls), SECCOMP_RET_ERRNO | EINVAL, SECCOMP_RET_ALLOW, BY_PRCTL);
    if (mapping_allow(span->address)) {
        *(volatile char *)span->address = 1;
    }
}

static void test_a_guard_that_stays(void **state) {
    (void)state;
    if (is_emulated()) {
        skip();
    }
    assert_int_equal(unit_signal_of(allow_where_advice_is_refused), 0);
}

static char dump_flag(const void *address) { /* 'd' if kept out of core dumps, from smaps */
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    bool is_it = false;
    char flag = '?';
    while (fgets(line, sizeof line, file)) {
        uintptr_t start;
        uintptr_t end;
        if (sscanf(line, "%zx-%zx ", &start, &end) == 2) {
            is_it = start <= (uintptr_t)address && (uintptr_t)address < end;
        } else if (is_it && strncmp(line, "VmFlags:", 8) == 0) {
            flag = strstr(line, " dd") ? 'd' : '-';
        }
    }
    fclose(file);
    return flag;
}

/* Purged pages are not dumped, until they are used again. */
static void test_core_dumps(void **state) {
    (void)state;
    struct span *span = page_heap_allocate(3 * HUGE_SIZE / SLICE_SIZE, HUGE_SIZE);
    char *bytes = (char *)span->address;
    memset(bytes, 1, span_size(span));
    size_t unit = bits_max(SLICE_SIZE, memory_page_size());
    assert_true(mapping_purge(span->address, span_size(span) - unit));
    assert_int_equal(*bytes, 0);
    if (is_emulated() || dump_flag(bytes) == '?') {
        skip(); /* an emulator passes no such advice on; a kernel without flags */
    }
    assert_int_equal(dump_flag(bytes), 'd');
    assert_int_equal(dump_flag(bytes + 2 * HUGE_SIZE), '-'); /* not whole */
    mapping_show(span->address + HUGE_SIZE, span->address + HUGE_SIZE + SLICE_SIZE);
    assert_int_equal(dump_flag(bytes), 'd');
    assert_int_equal(dump_flag(bytes + HUGE_SIZE), '-');
    page_heap_free(span, SPAN_CLEAN);
    span = page_heap_allocate(3 * HUGE_SIZE / SLICE_SIZE, HUGE_SIZE);
    assert_int_equal(span->address, (uintptr_t)bytes);
    page_heap_free(span, SPAN_DIRTY);
}

/* What is hidden from core dumps beside what is, is no mapping of its own, nor is what is shown
 * again: so a heap of any size can be returned 2 MiB by 2 MiB, and moved afterwards. */
/* What is more than the machine's memory is refused in one piece; the heap gets it in pieces, each
 * below the one before, that join when they are free. */
static struct span *allocate_vast(size_t slice_count) {
    enum { PIECE = 256 * (HUGE_SIZE / SLICE_SIZE), PIECES_MAX = 512 };
    struct span *pieces[PIECES_MAX];
    size_t count = slice_count / PIECE + 1;
    assert_true(count <= PIECES_MAX);
    for (size_t i = 0; i < count; i++) {
        pieces[i] = page_heap_allocate(PIECE, HUGE_SIZE);
        assert_non_null(pieces[i]);
    }
    for (size_t i = 0; i < count; i++) {
        page_heap_free(pieces[i], SPAN_CLEAN);
    }
    return page_heap_allocate(slice_count, HUGE_SIZE);
}

static void test_advice_merges(void **state) {
    (void)state;
    enum { COUNT_MAX = 1 << 16 };
    size_t count = limits_map_budget() + 2;
    if (is_emulated() || count > COUNT_MAX) {
        skip(); /* an emulator has maps of its own; so much address space takes long */
    }
    struct span *span = allocate_vast(count * (HUGE_SIZE / SLICE_SIZE));
    assert_non_null(span);
    size_t before = lines_of_maps();
    for (size_t i = 0; i < count; i++) {
        assert_true(mapping_purge(span->address + i * HUGE_SIZE, HUGE_SIZE));
    }
    assert_true(mapping_may_cut());
    assert_true(lines_of_maps() <= before + 2);
    for (size_t i = 0; i < count; i += 2) {
        mapping_show(span->address + i * HUGE_SIZE, span->address + i * HUGE_SIZE + SLICE_SIZE);
    }
    assert_false(mapping_may_cut());
    assert_true(lines_of_maps() > count);
    mapping_show(span->address, span_end(span));
    assert_true(mapping_may_cut());
    assert_true(lines_of_maps() <= before + 2);
    page_heap_free(span, SPAN_CLEAN);
}

static void test_option(void **state) {
    (void)state;
    options.moves = 0;
    assert_false(mapping_may_move());
    assert_true(mapping_may_cut());
    assert_false(can_move());
    options.moves = 1;
}

int main(void) {
    options.purge = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guards_leave_no_cuts), /* nothing was moved there yet */
        cmocka_unit_test(test_a_guard_that_stays),
        cmocka_unit_test(test_moves_pages),
        cmocka_unit_test(test_moves_across_cuts),
        cmocka_unit_test(test_leaves_locked_memory_alone),
        cmocka_unit_test(test_core_dumps),
        cmocka_unit_test(test_advice_merges),
        cmocka_unit_test(test_option),
    };
    return cmocka_run_group_tests_name("mapping", tests, NULL, NULL);
}
