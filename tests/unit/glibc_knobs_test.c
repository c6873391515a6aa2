#include "settings/glibc_knobs.h"

#include <malloc.h>

#include "settings/option_table.h"
#include "unit/unit.h"

static struct options defaults;
static char errors[2048];

static void forget(void) {
    options = defaults;
    memset((void *)option_sources, 0, sizeof option_sources);
}

static void read_environment(const void *argument) {
    options_read((char **)(uintptr_t)argument);
}

/* Reads variables from the defaults on; returns how many bytes that printed. */
static size_t read_variables(const char *first, const char *second) {
    const char *environment[] = {first, second, NULL};
    forget();
    return unit_capture_errors(errors, sizeof errors, read_environment, environment);
}

static void test_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t value; /* of top_pad, which has a maximum of 64 GiB */
    } numbers[] = {
        {"0", 0},
        {"4096", 4096},
        {"+4096", 4096},
        {" \t4096", 4096},
        {"0x1000", 4096},
        {"0XfF", 255},
        {"010", 8},
        {"64K", 65536},
        {"2MiB", 2 << 20},
        {"0x2m", 2 << 20},
        {"-1", 64ull << 30},
        {"-0", 0},
        {"18446744073709551615", 64ull << 30},
        {"99999999999999999999999999", 64ull << 30},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        char variable[96];
        snprintf(variable, sizeof variable, "MALLOC_TOP_PAD_=%s", numbers[i].text);
        assert_int_equal(read_variables(variable, NULL), 0);
        CHECK(options.top_pad == numbers[i].value, "%s sets %llu", variable,
              (unsigned long long)options.top_pad);
        snprintf(variable, sizeof variable, "GLIBC_TUNABLES=glibc.malloc.top_pad=%s",
                 numbers[i].text);
        assert_int_equal(read_variables(variable, "PRIMALLOC_VERBOSE=1"), 0);
        CHECK(options.top_pad == numbers[i].value, "%s sets %llu", variable,
              (unsigned long long)options.top_pad);
    }
}

static void test_garbage_is_ignored(void **state) {
    (void)state;
    static const char *const garbage[] = {
        "",   "x",    "-",   "+",     "0x",  "08", "1x",
        "1 ", "1 KB", "1.5", "0x1g1", "1e3", "K",  "18446744073709551615K"};
    for (size_t i = 0; i < ARRAY_LENGTH(garbage); i++) {
        char variable[96];
        snprintf(variable, sizeof variable, "MALLOC_TOP_PAD_=%s", garbage[i]);
        CHECK(read_variables(variable, NULL) == 0, "%s printed %s", variable, errors);
        CHECK(options.top_pad == 0, "%s sets %llu", variable, (unsigned long long)options.top_pad);
        CHECK(read_variables(variable, "PRIMALLOC_VERBOSE=1") > 0, "%s is silent", variable);
        CHECK(strstr(errors, "MALLOC_TOP_PAD_") && strchr(errors, '\n') == strrchr(errors, '\n'),
              "%s printed %s", variable, errors);
    }
}

static void test_ranges_are_glibcs(void **state) {
    (void)state;
    read_variables("MALLOC_PERTURB_=255", "MALLOC_MMAP_MAX_=2147483647");
    assert_int_equal(options.perturb, 255);
    assert_int_equal(options.mmap_max, 2147483647);
    read_variables("MALLOC_PERTURB_=256", "MALLOC_MMAP_MAX_=-1");
    assert_int_equal(options.perturb, 0);
    assert_int_equal(options.mmap_max, defaults.mmap_max);
    read_variables("MALLOC_ARENA_MAX=0", NULL);
    assert_int_equal(option_source(option_row_named("shards", 6)), SOURCE_DEFAULT);
    read_variables("MALLOC_ARENA_MAX=1000", "MALLOC_TRIM_THRESHOLD_=-1");
    assert_int_equal(options.shards, 64);
    assert_true(options.trim_threshold >= 1ull << 47 && options.trim_threshold != OPTION_AUTO);
}

static void test_tunables(void **state) {
    (void)state;
    read_variables("GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.tcache_max=1032:"
                   "glibc.pthread.rseq=0:glibc.malloc.arena_max=3:glibc.malloc.mmap_threshold=1",
                   NULL);
    assert_int_equal(options.cache_count, 0);
    assert_int_equal(options.cache_max, 1032);
    assert_int_equal(options.shards, 3);
    assert_int_equal(options.mmap_threshold, 1);
    read_variables("GLIBC_TUNABLES=glibc.malloc.top_pad=1:glibc.malloc.top_pad=2", NULL);
    assert_int_equal(options.top_pad, 2);
    static const char *const strange[] = {
        "GLIBC_TUNABLES=",
        "GLIBC_TUNABLES=:::",
        "GLIBC_TUNABLES=glibc.malloc.top_pad",
        "GLIBC_TUNABLES=glibc.malloc.=1",
        "GLIBC_TUNABLES=glibc.malloc=1",
        "GLIBC_TUNABLES=glibc.malloc.top_pad=:glibc.malloc.top_pa=1:glibc.malloc.top_padd=1",
        "GLIBC_TUNABLES==glibc.malloc.top_pad=1",
        "GLIBC_TUNABLES=top_pad=1",
        "GLIBC_TUNABLE=glibc.malloc.top_pad=1",
        "MALLOC_TOP_PAD=1",
        "MALLOC_TOP_PAD_1=1",
        "XMALLOC_TOP_PAD_=1",
        "MALLOC_TOP_PAD_",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(strange); i++) {
        CHECK(read_variables(strange[i], NULL) == 0, "%s printed %s", strange[i], errors);
        CHECK(memcmp(&options, &defaults, sizeof options) == 0, "%s sets something", strange[i]);
    }
}

static void test_huge_pages(void **state) {
    (void)state;
    static const struct {
        const char *tunable;
        uint64_t thp;
        uint64_t large_os_pages;
    } cases[] = {{"GLIBC_TUNABLES=glibc.malloc.hugetlb=0", THP_AUTO, 0},
                 {"GLIBC_TUNABLES=glibc.malloc.hugetlb=1", THP_ALWAYS, 0},
                 {"GLIBC_TUNABLES=glibc.malloc.hugetlb=2", THP_AUTO, 1},
                 {"GLIBC_TUNABLES=glibc.malloc.hugetlb=2097152", THP_AUTO, 1}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        read_variables(cases[i].tunable, NULL);
        assert_int_equal(options.thp, cases[i].thp);
        assert_int_equal(options.large_os_pages, cases[i].large_os_pages);
    }
}

static void test_mallopt(void **state) {
    (void)state;
    forget();
    assert_true(glibc_knobs_mallopt(M_TRIM_THRESHOLD, -1));
    assert_true(options.trim_threshold >= 1ull << 47 && options.trim_threshold != OPTION_AUTO);
    assert_true(glibc_knobs_mallopt(M_TOP_PAD, 123));
    assert_int_equal(options.top_pad, 123);
    assert_true(glibc_knobs_mallopt(M_MMAP_THRESHOLD, 456));
    assert_int_equal(options.mmap_threshold, 456);
    assert_true(glibc_knobs_mallopt(M_MMAP_MAX, -1));
    assert_int_equal(options.mmap_max, 0);
    assert_true(glibc_knobs_mallopt(M_ARENA_MAX, 5));
    assert_int_equal(options.shards, 5);
    assert_true(glibc_knobs_mallopt(M_ARENA_MAX, 0));
    assert_int_equal(options.shards, 5);
    assert_true(glibc_knobs_mallopt(M_PERTURB, 0x1234));
    assert_int_equal(options.perturb, 0x34);
    struct options before = options;
    assert_true(glibc_knobs_mallopt(M_ARENA_TEST, 9));
    assert_true(glibc_knobs_mallopt(M_CHECK_ACTION, 3));
    assert_true(glibc_knobs_mallopt(M_MXFAST, 160));
    assert_false(glibc_knobs_mallopt(M_MXFAST, 161));
    assert_false(glibc_knobs_mallopt(M_MXFAST, -1));
    assert_false(glibc_knobs_mallopt(0, 1));
    assert_false(glibc_knobs_mallopt(2, 1));
    assert_false(glibc_knobs_mallopt(-9, 1));
    assert_memory_equal(&options, &before, sizeof options);
}

static void call_mallopt(const void *argument) {
    (void)argument;
    glibc_knobs_mallopt(M_TOP_PAD, 65536);
}

static void test_mallopt_overrides_and_tells(void **state) {
    (void)state;
    read_variables("PRIMALLOC_TOP_PAD=1M", "PRIMALLOC_VERBOSE=1");
    unit_capture_errors(errors, sizeof errors, call_mallopt, NULL);
    assert_string_equal(errors, "primalloc: mallopt sets top_pad to 64 KiB\n");
    const char *environment[] = {"PRIMALLOC_TOP_PAD=2M", NULL};
    read_environment(environment);
    assert_int_equal(options.top_pad, 65536);
}

int main(void) {
    defaults = options;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_garbage_is_ignored),
        cmocka_unit_test(test_ranges_are_glibcs),
        cmocka_unit_test(test_tunables),
        cmocka_unit_test(test_huge_pages),
        cmocka_unit_test(test_mallopt),
        cmocka_unit_test(test_mallopt_overrides_and_tells),
    };
    return cmocka_run_group_tests_name("glibc_knobs", tests, NULL, NULL);
}
