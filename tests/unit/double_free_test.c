#include "objects/double_free.h"

#include "objects/slab.h"
#include "unit/slab_lists.h"
#include "unit/unit.h"

/* Lists that begin with the same block: the stack of lists is a circle; nobody is lost in it. */
static void test_lists_that_begin_alike(void **state) {
    (void)state;
    unsigned object_class = size_class_of(96);
    void *list = acquire(0, object_class, 8);
    unsigned count = length(list);
    void *other = acquire(0, object_class, 8);
    uint64_t before = double_free_count();
    slab_keep(0, object_class, list, count);
    slab_keep(0, object_class, other, length(other));
    slab_keep(0, object_class, list, count);
    slab_trim();
    assert_int_equal(totals().listed_blocks, 0);
    assert_true(double_free_count() > before);
}

/* A list that waits for the rest of it to go back, which begins with its end, and becomes a circle
 * meanwhile: when all goes back it is noticed once. */
static void test_rest_becomes_a_circle(void **state) {
    (void)state;
    enum { SLABS = 2 * SLAB_LITTLE_EFFORT };
    unsigned object_class = size_class_of(4096);
    void **list = NULL;
    void *others = fill_slabs(object_class, SLABS, (void **)&list);
    uint64_t before = double_free_count();
    assert_int_equal(slab_keep(0, object_class, list, SLABS), SLAB_KEPT);
    while (totals().listed_blocks == SLABS) {
        slab_tick();
    }
    assert_in_range(totals().listed_blocks, 2, SLABS);
    assert_null(*list);
    *list = (void *)list;
    slab_trim();
    assert_int_equal(totals().listed_blocks, 0);
    assert_int_equal(double_free_count(), before + 1);
    slab_release(object_class, others);
    check_nothing_left();
}

/* A list that ends in a circle, and one that is given back twice: each block is taken once. */
static void test_double_frees(void **state) {
    (void)state;
    unsigned object_class = size_class_of(512);
    uint64_t before = double_free_count();
    void *kept = acquire(0, object_class, 1);
    void **list = acquire(0, object_class, 8);
    unsigned count = length(list);
    assert_true(count >= 3);
    void **last = list;
    while (*last) {
        last = *last;
    }
    *last = list[0]; /* to the second block */
    size_t used = totals().used_blocks;
    slab_release(object_class, list);
    assert_int_equal(double_free_count(), before + 1);
    assert_int_equal(totals().used_blocks, used - count);
    void *alone = acquire(0, object_class, 1);
    unsigned taken = length(alone);
    *(void **)alone = NULL;
    slab_release(object_class, alone);
    slab_release(object_class, alone);
    assert_int_equal(double_free_count(), before + 2);
    assert_true(totals().used_blocks >= used - count + taken - 1);
    assert_true(length(kept) >= 1);
}

int main(void) {
    slab_initialise(1); /* one thread alone keeps no lists */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rest_becomes_a_circle), /* the first: others leave blocks behind */
        cmocka_unit_test(test_lists_that_begin_alike),
        cmocka_unit_test(test_double_frees),
    };
    return cmocka_run_group_tests_name("double free", tests, NULL, NULL);
}
