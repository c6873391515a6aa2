#include "pages/address_map.h"

#include <sys/resource.h>
#include <unistd.h>

#include "os/memory.h"
#include "unit/unit.h"

static const size_t region_size = (size_t)1 << 30;
static uintptr_t region; /* address space that nobody else uses */

static int reserve_region(void **state) {
    (void)state;
    region = (uintptr_t)memory_reserve(region_size + SLICE_SIZE);
    region = (region + SLICE_SIZE - 1) & ~(uintptr_t)(SLICE_SIZE - 1);
    return region == 0 || address_map_mask == 0;
}

static unsigned class_at(uintptr_t address) {
    return address_map_class((void *)address);
}

static void function(void) {}

static void test_strangers_have_no_class(void **state) {
    static int variable;
    assert_int_equal(address_map_class(NULL), 0);
    assert_int_equal(address_map_class(&variable), 0);
    assert_int_equal(address_map_class(&state), 0);
    assert_int_equal(address_map_class((void *)(uintptr_t)function), 0);
    assert_int_equal(class_at(UINTPTR_MAX), 0);
    assert_int_equal(class_at((uintptr_t)1 << 63), 0);
    assert_int_equal(class_at(region), 0);
}

static void test_one_byte_for_each_slice(void **state) {
    (void)state;
    assert_true(address_map_cover(region, region_size));
    for (uintptr_t slice = 0; slice < 300; slice++) {
        address_map_set(region + slice * SLICE_SIZE, (unsigned)(slice % 255));
    }
    for (uintptr_t slice = 0; slice < 300; slice++) {
        uintptr_t address = region + slice * SLICE_SIZE;
        assert_int_equal(class_at(address), slice % 255);
        assert_int_equal(class_at(address + SLICE_SIZE / 2), slice % 255);
        assert_int_equal(class_at(address + SLICE_SIZE - 1), slice % 255);
    }
    assert_int_equal(class_at(region - 1), 0);
    assert_int_equal(class_at(region + 300 * SLICE_SIZE), 0);
    for (uintptr_t slice = 0; slice < 300; slice++) {
        address_map_set(region + slice * SLICE_SIZE, 0);
        assert_int_equal(class_at(region + slice * SLICE_SIZE), 0);
    }
}

/* The bytes of the highest address that can be are there, too, and so are covered twice. */
static void test_both_ends(void **state) {
    (void)state;
    uintptr_t last = ((uintptr_t)1 << PRIM_ADDRESS_BITS) - SLICE_SIZE;
    assert_true(address_map_cover(last, SLICE_SIZE));
    assert_true(address_map_cover(last, SLICE_SIZE));
    address_map_set(last, 9);
    assert_int_equal(class_at(last), 9);
    assert_int_equal(class_at(last - 1), 0);
    assert_int_equal(class_at(0), 0);
    address_map_set(last, 0);
    assert_true(address_map_cover(0, SLICE_SIZE));
    assert_int_equal(class_at(0), 0);
}

static void work_without_map(void) {
    static _Atomic uint8_t only[1];
    struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    address_map_bytes = only;
    address_map_mask = 0;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "no limit of address space");
    address_map_initialise();
    CHECK(address_map_mask == 0, "a map of several GiB fits into 1 GiB");
    CHECK(address_map_cover(region, region_size), "without a map there is nothing to cover");
    address_map_set(region, 5);
    CHECK(class_at(region) == 0 && class_at(0) == 0 && only[0] == 0, "a map out of nothing");
}

static void test_without_map(void **state) {
    (void)state;
    if (is_emulated()) {
        skip(); /* the limit would be the emulator's */
    }
    assert_int_equal(unit_signal_of(work_without_map), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_have_no_class),
        cmocka_unit_test(test_one_byte_for_each_slice),
        cmocka_unit_test(test_both_ends),
        cmocka_unit_test(test_without_map),
    };
    return cmocka_run_group_tests_name("address map", tests, reserve_region, NULL);
}
