#include "pages/extent_tree.h"

#include "unit/unit.h"

enum { SPANS = 600 };

static struct span spans[SPANS];
static struct span *sorted[SPANS]; /* the model: what is in the tree, in its order */
static size_t sorted_count;
static struct span *root;

static bool is_before(const struct span *a, const struct span *b) {
    return a->slice_count != b->slice_count ? a->slice_count < b->slice_count
                                            : a->address < b->address;
}

static void make_spans(struct random *random) {
    for (uintptr_t i = 0; i < SPANS; i++) {
        spans[i] = (struct span){.address = (i * 64 + 4096) * SLICE_SIZE};
        spans[i].slice_count = (uint32_t)random_below(random, i % 2 ? 8 : 64) + 1;
    }
    root = NULL;
    sorted_count = 0;
}

static size_t model_position(const struct span *span) {
    size_t position = 0;
    while (position < sorted_count && is_before(sorted[position], span)) {
        position++;
    }
    return position;
}

static void insert(struct span *span) {
    size_t position = model_position(span);
    memmove(&sorted[position + 1], &sorted[position], (sorted_count - position) * sizeof sorted[0]);
    sorted[position] = span;
    sorted_count++;
    extent_tree_insert(&root, span);
}

static void remove_span(struct span *span) {
    size_t position = model_position(span);
    sorted_count--;
    memmove(&sorted[position], &sorted[position + 1], (sorted_count - position) * sizeof sorted[0]);
    extent_tree_remove(&root, span);
}

static bool is_in_tree(const struct span *span) {
    size_t position = model_position(span);
    return position < sorted_count && sorted[position] == span;
}

/* Compares the tree, in order, with the model from *position on; returns its depth. */
static unsigned check_order(const struct span *tree, size_t *position) {
    if (!tree) {
        return 0;
    }
    unsigned left = check_order(tree->left, position);
    CHECK(*position < sorted_count && sorted[*position] == tree, "extent %zu of the tree",
          *position);
    (*position)++;
    unsigned right = check_order(tree->right, position);
    return (left > right ? left : right) + 1;
}

static void check_searches(struct random *random) {
    size_t wanted = random_below(random, 70) + 1;
    struct span *expected = NULL;
    for (size_t i = 0; i < sorted_count && !expected; i++) {
        expected = sorted[i]->slice_count >= wanted ? sorted[i] : NULL;
    }
    CHECK(extent_tree_best_fit(root, wanted) == expected, "best fit for %zu slices", wanted);
    struct span place = {.slice_count = (uint32_t)wanted,
                         .address = spans[random_below(random, SPANS)].address};
    expected = NULL;
    for (size_t i = 0; i < sorted_count && is_before(sorted[i], &place); i++) {
        expected = sorted[i];
    }
    CHECK(extent_tree_before(root, wanted, place.address) == expected, "before %zu slices", wanted);
}

static void test_random_walk(void **state) {
    (void)state;
    struct random random = unit_random();
    make_spans(&random);
    for (size_t step = 0; step < scaled(20000); step++) {
        struct span *span = &spans[random_below(&random, SPANS)];
        if (is_in_tree(span)) {
            remove_span(span);
        } else {
            insert(span);
        }
        check_searches(&random);
        if (step % 16 == 0) {
            size_t position = 0;
            unsigned depth = check_order(root, &position);
            CHECK(position == sorted_count, "%zu of %zu extents", position, sorted_count);
            CHECK(depth <= 45, "depth %u of %zu extents", depth, sorted_count);
        }
    }
    while (sorted_count) {
        remove_span(sorted[random_below(&random, sorted_count)]);
    }
    assert_null(root);
}

/* A tree in order of size that is also a heap of priorities has one shape: the same whatever the
 * order in which its extents came and whatever went in between. */
struct links {
    const struct span *left;
    const struct span *right;
};

static void test_shape_depends_on_contents_only(void **state) {
    (void)state;
    static struct links links[SPANS];
    struct random random = unit_random();
    make_spans(&random);
    for (size_t i = 0; i < SPANS; i++) {
        insert(&spans[i]);
    }
    const struct span *first_root = root;
    for (size_t i = 0; i < SPANS; i++) {
        links[i] = (struct links){spans[i].left, spans[i].right};
    }
    for (size_t i = 0; i < SPANS; i += 3) {
        remove_span(&spans[i]);
    }
    for (size_t i = (SPANS - 1) / 3 * 3 + 3; i >= 3; i -= 3) {
        insert(&spans[i - 3]);
    }
    assert_int_equal(sorted_count, SPANS);
    assert_ptr_equal(root, first_root);
    for (size_t i = 0; i < SPANS; i++) {
        assert_ptr_equal(spans[i].left, links[i].left);
        assert_ptr_equal(spans[i].right, links[i].right);
    }
}

static void test_ordered_input_stays_shallow(void **state) {
    (void)state;
    struct random random = {1};
    make_spans(&random);
    for (size_t i = 0; i < SPANS; i++) {
        spans[i].slice_count = (uint32_t)i + 1;
        insert(&spans[i]);
    }
    size_t position = 0;
    assert_true(check_order(root, &position) <= 45);
}

static void test_empty(void **state) {
    (void)state;
    assert_null(extent_tree_best_fit(NULL, 1));
    assert_null(extent_tree_before(NULL, 1, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_walk),
        cmocka_unit_test(test_shape_depends_on_contents_only),
        cmocka_unit_test(test_ordered_input_stays_shallow),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests_name("extent tree", tests, NULL, NULL);
}
