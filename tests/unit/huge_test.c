#include "pages/huge.h"

#include <signal.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/page_heap.h"
#include "settings/options.h"
#include "unit/unit.h"

enum { BLOCK = HUGE_SIZE / SLICE_SIZE };

/* Whether the kernel gives huge pages to who asks. */
static bool has_huge_pages(void) {
    char *pages = memory_map(2 * HUGE_SIZE);
    bool agrees = memory_advise_huge(pages, 2 * HUGE_SIZE, true);
    char *block = (char *)bits_round_up((uintptr_t)pages, HUGE_SIZE);
    *block = 1;
    bool is_huge = unit_resident(block, HUGE_SIZE) == HUGE_SIZE;
    memory_unmap(pages, 2 * HUGE_SIZE);
    return agrees && is_huge;
}

static struct span *take(size_t slice_count) {
    struct span *span = page_heap_allocate(slice_count, 0);
    CHECK(span != NULL && span->is_zero, "no fresh memory");
    return span;
}

static void touch(const struct span *span) {
    memset((void *)span->address, 1, span_size(span));
}

/* What large.c does: whole blocks of a span without pages. */
static void consider(const struct span *span) {
    huge_consider_large(span->address, span_end(span));
}

static bool is_asked_for(const struct span *span) {
    return span_has_mark(bits_round_up(span->address, HUGE_SIZE), MARK_HUGE);
}

/* A heap that is no longer small; the first ranges find no evidence. */
static void grow_heap(void) {
    struct span *span = take(16 * BLOCK);
    touch(span);
}

/* Whatever is dense there: half of a huge page is much of a small heap. */
static void test_small_heap_gets_none(void **state) {
    (void)state;
    for (int i = 0; i < 7 * BLOCK / 2; i++) {
        touch(take(1));
    }
    assert_int_equal(load_relaxed(&huge_asked_bytes), 0);
}

/* Nor has a heap that grows slowly, until it is large: there faults take little of the time. It is
 * of up to half that size, as one more growth of it is not to make it large. */
static void test_slow_growth_gets_none(void **state) {
    (void)state;
    while (load_relaxed(&page_heap.mapped_slices) < 8 * BLOCK) {
        uint64_t end = machine_process_time_us() + 12000;
        while (machine_process_time_us() < end) {}
        for (int i = 0; i < BLOCK; i++) {
            touch(take(1));
        }
    }
    assert_int_equal(load_relaxed(&huge_asked_bytes), 0);
}

/* Nor has one of many threads, whose part of it is small. */
static void test_many_threads_get_none(void **state) {
    (void)state;
    for (int i = 0; i < 128; i++) {
        huge_note_thread();
    }
    for (int i = 0; i < 4 * BLOCK; i++) {
        touch(take(1));
    }
    assert_int_equal(load_relaxed(&huge_asked_bytes), 0);
}

/* No range of large blocks was dense yet. */
static void test_first_range_gets_none(void **state) {
    (void)state;
    struct span *span = take(BLOCK + BLOCK / 4);
    consider(span);
    assert_false(is_asked_for(span));
    touch(span);
    assert_int_equal(load_relaxed(&huge_asked_bytes), 0);
}

/* Large blocks that come after a dense one may be of another kind: few of them find that out. To be
 * called before others were wanted. */
static void test_others_than_the_dense(void **state) {
    (void)state;
    struct span *dense = take(8 * BLOCK);
    consider(dense);
    touch(dense);
    size_t before = load_relaxed(&huge_asked_bytes);
    for (int i = 0; i < 12; i++) {
        struct span *span = take(BLOCK + BLOCK / 2);
        consider(span);
        *(char *)span->address = 1;
    }
    assert_true(load_relaxed(&huge_asked_bytes) - before <= HUGE_SIZE);
}

/* A table of any size may be sparse, whatever was dense before: sixteen times as much becomes huge,
 * and the rest tells of the next. */
static void test_sparse_table(void **state) {
    (void)state;
    enum { DENSE = 3, TIMES = 16, TABLE = 8 * DENSE * TIMES };
    struct span *dense = take(DENSE * BLOCK);
    consider(dense);
    touch(dense);
    size_t before = load_relaxed(&huge_asked_bytes);
    struct span *table = take((size_t)TABLE * BLOCK);
    consider(table);
    assert_true(load_relaxed(&huge_asked_bytes) - before <= (size_t)DENSE * TIMES * HUGE_SIZE);
    before = load_relaxed(&huge_asked_bytes);
    struct span *next = take(3 * BLOCK);
    consider(next);
    assert_int_equal(load_relaxed(&huge_asked_bytes), before);
}

/* Blocks that nobody fills begin where even steps do. */
static void test_heads_are_not_dense(void **state) {
    (void)state;
    enum { HEADS = 32 << 10 };
    struct span *heads = take(4 * BLOCK);
    consider(heads);
    memory_advise_huge((void *)heads->address, span_size(heads), false);
    for (size_t at = 0; at < span_size(heads); at += HEADS) {
        ((char *)heads->address)[at] = 1;
    }
    size_t before = load_relaxed(&huge_asked_bytes);
    struct span *next = take(4 * BLOCK);
    consider(next);
    assert_int_equal(load_relaxed(&huge_asked_bytes), before);
}

/* Whether its end alone goes without: after a stall more does. */
static bool has_probe(const struct span *span) {
    uintptr_t last = bits_round_down(span_end(span), HUGE_SIZE) - HUGE_SIZE;
    return !span_has_mark(last, MARK_HUGE) && span_has_mark(last - HUGE_SIZE, MARK_HUGE);
}

/* The 17th has a probe at its end, and no other: also if each is considered twice. */
static void test_dense_use_earns_them(void **state) {
    (void)state;
    unsigned asked = 0;
    unsigned probes = 0;
    grow_heap();
    for (int i = 0; i < 20; i++) { /* a stall may stop it early */
        struct span *span = take(4 * BLOCK);
        size_t before = unit_resident((void *)span->address, span_size(span));
        assert_int_equal(before, 0);
        consider(span);
        consider(span);
        if (is_asked_for(span)) {
            asked++;
            probes += has_probe(span);
            assert_int_equal(*(char *)bits_round_up(span->address, HUGE_SIZE), 0);
        }
        touch(span);
    }
    if (has_huge_pages()) {
        assert_true(asked >= 1);
        assert_true(load_relaxed(&huge_asked_bytes) >= HUGE_SIZE);
        assert_true(probes == 1 || asked <= 17); /* fewer: a stall, and a pause over that one */
    }
}

static void test_sparse_use_does_not(void **state) {
    (void)state;
    struct span *sparse = take(8 * BLOCK); /* whatever becomes of this one */
    consider(sparse);
    for (int i = 0; i < 10; i++) {
        struct span *span = take(8 * BLOCK);
        *(char *)span->address = 1;
        consider(span);
        if (i > 1) { /* its predecessors were touched at one page, or at one huge page, of eight */
            assert_false(is_asked_for(span));
        }
    }
}

/* What touches a protected page takes 5 ms of the processor. */
static void stall(int signal_number, siginfo_t *information, void *context) {
    (void)signal_number;
    (void)context;
    uint64_t start = machine_thread_time_us();
    while (machine_thread_time_us() - start < 5000) {}
    uintptr_t page = bits_round_down((uintptr_t)information->si_addr, memory_page_size());
    mprotect((void *)page, memory_page_size(), PROT_READ | PROT_WRITE);
}

static void protect_first_page(const struct span *span) {
    void *page = (void *)bits_round_up(span->address, HUGE_SIZE);
    assert_int_equal(mprotect(page, memory_page_size(), PROT_NONE), 0);
}

/* Where the system has no huge page at hand, it has none for the rest of the range either. */
static void test_a_stall_gives_the_rest_up(void **state) {
    (void)state;
    struct sigaction action = {.sa_sigaction = stall, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    bool is_asked = false;
    for (int i = 0; i < 40 && !is_asked; i++) { /* a stall before may have led to a pause */
        struct span *span = take(4 * BLOCK);
        uintptr_t rest = bits_round_up(span->address, HUGE_SIZE) + HUGE_SIZE;
        protect_first_page(span);
        consider(span);
        is_asked = is_asked_for(span);
        assert_false(span_has_mark(rest, MARK_HUGE));
        assert_false(span_has_mark(rest, MARK_ASKED));
        touch(span);
    }
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_true(is_asked || !has_huge_pages());
    struct span *next = take(4 * BLOCK);
    consider(next);
    assert_false(is_asked_for(next));
}

/* Small spans fill blocks one after the other: who begins one may earn a huge page for it. */
static void test_small_spans(void **state) {
    (void)state;
    size_t before = load_relaxed(&huge_asked_bytes);
    for (int i = 0; i < 64 * BLOCK && load_relaxed(&huge_asked_bytes) == before; i++) {
        touch(take(1)); /* so many because stalls of the test before may have led to a pause */
    }
    if (has_huge_pages()) {
        assert_true(load_relaxed(&huge_asked_bytes) > before);
    }
    assert_true(huge_waste_bytes() <= 2 * HUGE_SIZE);
}

/* Begins a whole block for a lane, and says whether it is asked for. */
static bool begin(uintptr_t start, unsigned lane) {
    struct span first = {.address = start, .slice_count = 1};
    huge_consider_small(&first, start + HUGE_SIZE, lane);
    return span_has_mark(start, MARK_ASKED);
}

/* A lane that fills its blocks gets huge ones, whatever another that begins one between them does
 * with its own. */
static void test_lanes_are_judged_apart(void **state) {
    (void)state;
    enum { LEAST = 64, MOST = 512 }; /* the more on a busy machine, whose faults stall */
    struct span *span = take(2 * MOST * BLOCK + BLOCK - 1);
    uintptr_t block = bits_round_up(span->address, HUGE_SIZE);
    unsigned asked[2] = {0, 0};
    for (int i = 0; i < 2 * MOST && (i < 2 * LEAST || asked[0] <= 1); i++, block += HUGE_SIZE) {
        unsigned lane = 1 + i % 2;
        asked[lane - 1] += begin(block, lane);
        if (lane == 1) {
            memset((void *)block, 1, HUGE_SIZE);
        }
    }
    assert_true(asked[0] > 1 || !has_huge_pages());
    assert_int_equal(asked[1], 0);
}

/* All of a huge page would be resident, where the limit counts the part that is in use. */
static void test_hard_limit_is_kept(void **state) {
    (void)state;
    size_t before = load_relaxed(&huge_asked_bytes);
    options.hard_limit = (uint64_t)1 << 40;
    for (int i = 0; i < 16 * BLOCK; i++) {
        touch(take(1));
    }
    options.hard_limit = 0;
    assert_int_equal(load_relaxed(&huge_asked_bytes), before);
}

static void test_never(void **state) {
    (void)state;
    size_t before = load_relaxed(&huge_asked_bytes);
    options.thp = THP_NEVER;
    for (int i = 0; i < 4; i++) {
        struct span *span = take(4 * BLOCK);
        consider(span);
        touch(span);
    }
    options.thp = THP_AUTO;
    assert_int_equal(load_relaxed(&huge_asked_bytes), before);
}

static void ask_pool(const void *argument) {
    (void)argument;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(huge_map_pool((size_t)1 << 46), 0); /* more than any pool has */
    }
}

static void test_empty_pool_is_reported_once(void **state) {
    (void)state;
    char text[512];
    unit_capture_errors(text, sizeof text, ask_pool, NULL);
    assert_non_null(strstr(text, "large_os_pages: 67108864 MiB are not free"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_int_equal(load_relaxed(&huge_pool_bytes), 0);
}

int main(void) {
    options.purge = 0;
    options.moves = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_heap_gets_none),
        cmocka_unit_test(test_slow_growth_gets_none),
        cmocka_unit_test(test_many_threads_get_none),
        cmocka_unit_test(test_first_range_gets_none),
        cmocka_unit_test(test_others_than_the_dense),
        cmocka_unit_test(test_heads_are_not_dense),
        cmocka_unit_test(test_sparse_table),
        cmocka_unit_test(test_dense_use_earns_them),
        cmocka_unit_test(test_sparse_use_does_not),
        cmocka_unit_test(test_a_stall_gives_the_rest_up),
        cmocka_unit_test(test_small_spans),
        cmocka_unit_test(test_lanes_are_judged_apart),
        cmocka_unit_test(test_hard_limit_is_kept),
        cmocka_unit_test(test_never),
        cmocka_unit_test(test_empty_pool_is_reported_once),
    };
    return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
