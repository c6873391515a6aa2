#include "pages/sparse.h"

#include <sys/syscall.h>

#include "base/bits.h"
#include "os/memory.h"
#include "pages/bare.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "settings/options.h"
#include "traps/fixtures/confine.h"
#include "unit/unit.h"

enum { LIVE = 60, SIZES = 8, TURNS = 30000 };

static struct span *live[LIVE];

/* Slices of whole pages. */
static size_t grain(void) {
    return bits_max(memory_page_size(), SLICE_SIZE) / SLICE_SIZE;
}

static struct span *take(struct random *random, bool is_filled) {
    size_t slices = grain() * (SPARSE_MIN + random_below(random, SIZES));
    struct span *span = page_heap_allocate(slices, 0);
    assert_non_null(span);
    char *bytes = (char *)span->address;
    if (is_filled) {
        memset(bytes, 1, span_size(span));
    } else {
        bytes[0] = bytes[span_size(span) - 1] = 1;
    }
    return span;
}

/* Replaces spans at random, whose ends or all of which the program writes. */
static void churn(unsigned turns, bool is_filled) {
    struct random random = unit_random();
    for (unsigned i = 0; i < turns; i++) {
        struct span **span = &live[random_below(&random, LIVE)];
        if (*span) {
            page_heap_free(*span, SPAN_DIRTY);
        }
        *span = take(&random, is_filled);
    }
}

static void end_all(void) {
    for (unsigned i = 0; i < LIVE; i++) {
        if (live[i]) {
            page_heap_free(live[i], SPAN_DIRTY);
        }
        live[i] = NULL;
    }
    purge_all(0);
}

/* Of spans in use, and of those that are apart. */
static size_t resident(void) {
    size_t bytes = 0;
    for (unsigned i = 0; i < LIVE; i++) {
        bytes += live[i] ? unit_resident((void *)live[i]->address, span_size(live[i])) : 0;
    }
    for (unsigned list = 0; list <= QUICK_MAX; list++) {
        for (struct span *span = page_heap.quick.newest[list]; span; span = span->next) {
            bytes += unit_resident((void *)span->address, span_size(span));
        }
    }
    return bytes;
}

/* Until it is on: what was touched at first may hide what is not, as long as no purge is. */
static void learn(void) {
    for (unsigned tries = 0; tries < 32 && !load_relaxed(&sparse_is_on); tries++) {
        end_all();
        churn(TURNS / 8, false);
    }
    assert_true(load_relaxed(&sparse_is_on));
}

/* Ends that are touched: what stays resident are few pages of each span, used or apart, however
 * often spans were replaced. In a few of a thousand runs the verdict is lost on the way: such a
 * run is tried again. */
static void test_ends_only(void **state) {
    (void)state;
    bool is_kept = false;
    for (unsigned tries = 0; tries < 4 && !is_kept; tries++) {
        learn();
        end_all(); /* what was touched before */
        churn(TURNS, false);
        is_kept = page_heap.quick.span_count > LIVE / 4 &&
                  resident() < unit_slices_in_use() * SLICE_SIZE / 2;
    }
    assert_true(is_kept);
    end_all();
    assert_int_equal(page_heap.quick.span_count, 0);
}

/* Blocks that are filled: no more than ever is apart, also where it was otherwise before. Looks are
 * rare then, and yet find out when it changes. */
static void test_filled(void **state) {
    (void)state;
    churn(TURNS, true);
    assert_false(load_relaxed(&sparse_is_on));
    assert_int_equal(load_relaxed(&sparse_unsure), 0);
    end_all();
    learn();
    assert_true(load_relaxed(&sparse_unsure) > 0);
    churn(TURNS, true);
    assert_false(load_relaxed(&sparse_is_on));
    end_all();
}

/* Who fills its blocks and was taken for such a program is found out soon, though few spans are
 * searched for meanwhile. */
static void test_young_verdict(void **state) {
    (void)state;
    enum { FEW = 30, SOON = 1500 };
    for (unsigned turns = 0; turns < 4 * TURNS && !load_relaxed(&sparse_is_on); turns += FEW) {
        if (turns % (TURNS / 8) == 0) {
            end_all();
        }
        churn(FEW, false);
    }
    assert_true(load_relaxed(&sparse_is_on));
    churn(SOON, true);
    assert_false(load_relaxed(&sparse_is_on));
    end_all();
}

/* An epoch in which hardly a span is taken: nothing is apart for the sake of such. */
static void test_idle(void **state) {
    (void)state;
    options.purge_delay = 0;
    learn();
    purge_tick();
    assert_true(load_relaxed(&sparse_is_on));
    assert_true(page_heap.quick.span_count > 0);
    for (unsigned i = 0; i < 4; i++) {
        purge_tick();
    }
    assert_false(load_relaxed(&sparse_is_on));
    assert_int_equal(page_heap.quick.span_count, 0);
    end_all();
}

/* Hardened spans end with a guard: they are as long as they are. */
static void test_not_where_hardened(void **state) {
    (void)state;
    options.hardened = true;
    churn(TURNS, false);
    assert_false(load_relaxed(&sparse_is_on));
    options.hardened = false;
    end_all();
}

static void fill_where_a_filter_does_not_tell(void) {
    static const int calls[] = {SYS_mincore};
    confine(calls, ARRAY_LENGTH(calls), SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW, BY_PRCTL);
    churn(TURNS, true);
    CHECK(!load_relaxed(&sparse_is_on), "filled blocks are taken for sparse");
    struct random random = unit_random();
    struct span *span = take(&random, true);
    CHECK(sparse_samples(span->address, span_size(span)) == SPARSE_SAMPLES, "has pages");
    CHECK(!sparse_is_bare(span) && !bare_clear(span), "has pages");
}

/* Where the kernel's answer is refused, as by a service manager's usual filters, blocks count as
 * filled. */
static void test_where_nobody_tells(void **state) {
    (void)state;
    if (is_emulated()) {
        skip(); /* an emulator has no filters */
    }
    assert_int_equal(unit_signal_of(fill_where_a_filter_does_not_tell), 0);
}

int main(void) {
    unit_touch_single_pages();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_where_hardened),
        cmocka_unit_test(test_ends_only),
        cmocka_unit_test(test_filled),
        cmocka_unit_test(test_young_verdict),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_where_nobody_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
