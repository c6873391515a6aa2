#include "base/bits.h"
#include "pages/extent_set.h"

#include "unit/unit.h"

enum { SPANS = 500, SIZE_MAX_TESTED = 3 * EXACT_MAX };

static struct span spans[SPANS];
static bool is_in_set[SPANS];
static struct extent_set set;

static void make_spans(struct random *random) {
    memset(&set, 0, sizeof set);
    for (uintptr_t i = 0; i < SPANS; i++) {
        is_in_set[i] = false;
        uintptr_t slice = i * 256 + 4096 + random_below(random, 32);
        spans[i] = (struct span){.address = slice * SLICE_SIZE};
        spans[i].slice_count = (uint32_t)random_below(random, SIZE_MAX_TESTED) + 1;
    }
}

/* The model: a search through everything. */
static struct span *best_fit(size_t slice_count) {
    struct span *best = NULL;
    for (size_t i = 0; i < SPANS; i++) { /* addresses ascend */
        if (is_in_set[i] && spans[i].slice_count >= slice_count &&
            (!best || spans[i].slice_count < best->slice_count)) {
            best = &spans[i];
        }
    }
    return best;
}

static struct span *largest(void) {
    struct span *found = NULL;
    for (size_t i = 0; i < SPANS; i++) {
        if (is_in_set[i] && (!found || spans[i].slice_count >= found->slice_count)) {
            found = &spans[i];
        }
    }
    return found;
}

static struct span *before(size_t slice_count, uintptr_t address) {
    struct span *found = NULL;
    for (size_t i = 0; i < SPANS; i++) {
        bool is_before = spans[i].slice_count < slice_count ||
                         (spans[i].slice_count == slice_count && spans[i].address < address);
        if (is_in_set[i] && is_before && (!found || spans[i].slice_count >= found->slice_count)) {
            found = &spans[i];
        }
    }
    return found;
}

/* The last of just that size, else the first of a greater one with room behind its beginning. */
static struct span *aligned(size_t slice_count, uintptr_t alignment) {
    struct span *found = NULL;
    for (size_t i = 0; i < SPANS; i++) {
        if (is_in_set[i] && spans[i].slice_count == slice_count &&
            spans[i].address % alignment == 0) {
            found = &spans[i];
        }
    }
    struct span *first = found ? NULL : best_fit(slice_count + 1);
    for (int looks = 64; looks && first && !found; looks--) {
        uintptr_t start = bits_round_up(first->address, alignment);
        found = start + slice_count * SLICE_SIZE <= span_end(first) ? first : NULL;
        first = best_fit(first->slice_count + 1);
    }
    return found;
}

static void change(size_t index) {
    if (is_in_set[index]) {
        extent_set_remove(&set, &spans[index]);
    } else {
        extent_set_insert(&set, &spans[index]);
    }
    is_in_set[index] = !is_in_set[index];
}

static void check_sums(void) {
    size_t slices = 0;
    for (size_t i = 0; i < SPANS; i++) {
        slices += is_in_set[i] ? spans[i].slice_count : 0;
    }
    CHECK(set.slice_count == slices, "%zu slices, expected %zu", set.slice_count, slices);
    for (size_t size = 1; size <= EXACT_MAX; size++) {
        CHECK((set.occupied >> size & 1) == (set.exact[size] != NULL), "bit of %zu slices", size);
    }
    CHECK((set.occupied & 1) == 0, "the unused bit is set");
}

static void test_random_walk(void **state) {
    (void)state;
    struct random random = unit_random();
    make_spans(&random);
    for (size_t step = 0; step < scaled(20000); step++) {
        change(random_below(&random, SPANS));
        size_t wanted = random_below(&random, SIZE_MAX_TESTED + 5) + 1;
        CHECK(extent_set_best_fit(&set, wanted) == best_fit(wanted), "best fit for %zu", wanted);
        CHECK(extent_set_largest(&set) == largest(), "largest");
        uintptr_t address = random_below(&random, SPANS + 2) * 256 * SLICE_SIZE;
        CHECK(extent_set_before(&set, wanted, address) == before(wanted, address),
              "before %zu slices at %#zx", wanted, (size_t)address);
        uintptr_t alignment = (uintptr_t)SLICE_SIZE << random_below(&random, 16);
        CHECK(extent_set_aligned(&set, wanted, alignment) == aligned(wanted, alignment),
              "%zu slices at a multiple of %#zx", wanted, (size_t)alignment);
        check_sums();
    }
    for (size_t i = 0; i < SPANS; i++) {
        if (is_in_set[i]) {
            change(i);
        }
    }
    check_sums();
    assert_null(extent_set_largest(&set));
    assert_null(extent_set_best_fit(&set, 1));
    assert_null(set.greater);
}

/* Few spans, so that the sizes on both sides of the limit are often the only ones. */
static void test_around_the_limit(void **state) {
    (void)state;
    struct random random = {3};
    make_spans(&random);
    for (size_t i = 0; i < 5; i++) {
        spans[i].slice_count = (uint32_t)(EXACT_MAX - 2 + i);
    }
    for (unsigned chosen = 0; chosen < 1u << 5; chosen++) {
        for (size_t i = 0; i < 5; i++) {
            if (is_in_set[i] != (chosen >> i & 1)) {
                change(i);
            }
        }
        for (size_t wanted = 1; wanted < EXACT_MAX + 5; wanted++) {
            assert_ptr_equal(extent_set_best_fit(&set, wanted), best_fit(wanted));
            assert_ptr_equal(extent_set_before(&set, wanted, 0), before(wanted, 0));
        }
        assert_ptr_equal(extent_set_largest(&set), largest());
        assert_ptr_equal(extent_set_before(&set, SIZE_MAX, 0), largest());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_walk),
        cmocka_unit_test(test_around_the_limit),
    };
    return cmocka_run_group_tests_name("extent set", tests, NULL, NULL);
}
