#include "watch/profile_settings.h"

#include <signal.h>

#include "unit/unit.h"

static struct profile_settings settings;

static bool read_settings(const char *text) {
    const char *wrong;
    return profile_settings_read(&settings, text, &wrong);
}

static void a_path_is_enough(void **state) {
    (void)state;
    assert_true(read_settings("/tmp/a.pb.gz"));
    assert_string_equal(settings.path, "/tmp/a.pb.gz");
    assert_int_equal(settings.rate, 512 << 10);
    assert_int_equal(settings.bytes + settings.seconds + (unsigned)settings.signal + settings.peak,
                     0);
    assert_true(read_settings(""));
    assert_string_equal(settings.path, "");
}

static void everything_at_once(void **state) {
    (void)state;
    assert_true(read_settings("x,rate=1M,bytes=2G,seconds=30,signal=USR2,peak"));
    assert_string_equal(settings.path, "x");
    assert_int_equal(settings.rate, 1 << 20);
    assert_int_equal(settings.bytes, (uint64_t)2 << 30);
    assert_int_equal(settings.seconds, 30);
    assert_int_equal(settings.signal, SIGUSR2);
    assert_true(settings.peak);
    assert_true(read_settings(",signal=SIGHUP,rate=1"));
    assert_int_equal(settings.signal, SIGHUP);
    assert_int_equal(settings.rate, 1);
    assert_true(read_settings(",seconds=9999999999999"));
    assert_int_equal(settings.seconds, 9999999999999);
    assert_true(read_settings(",signal=34"));
    assert_int_equal(settings.signal, 34);
}

static void a_budget_is_for_who_names_no_rate(void **state) {
    (void)state;
    static const struct {
        const char *text;
        unsigned budget;
    } rows[] = {
        {"a", 10000},
        {"a,rate=512K", 0},
        {"a,rate=64K,budget=2", 20000},
        {"a,budget=0.5,rate=64K", 5000},
        {"a,budget=0", 0},
        {"a,budget=0.0001", 1},
        {"a,budget=.25", 2500},
        {"a,budget=100", 1000000},
        {"a,budget=12.3456", 123456},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(rows); i++) {
        assert_true(read_settings(rows[i].text));
        assert_int_equal(settings.budget, rows[i].budget);
    }
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    static const char *const texts[] = {"a,rate=0",
                                        "a,rate=x",
                                        "a,rate=",
                                        "a,rate",
                                        "a,b",
                                        "a,",
                                        "a,seconds=1K",
                                        "a,seconds=18446744073710",
                                        "a,signal=KILL9",
                                        "a,signal=65",
                                        "a,signal=9",
                                        "a,signal=19",
                                        "a,signal=32",
                                        "a,signal=33",
                                        "a,rate=99999999999999T",
                                        "a,peak=2",
                                        "a,budget=",
                                        "a,budget=.",
                                        "a,budget=1.2.3",
                                        "a,budget=101",
                                        "a,budget=1%",
                                        "a,budget=0.00001",
                                        "a,budget=-1",
                                        "a,budget=1234567890"};
    for (unsigned i = 0; i < ARRAY_LENGTH(texts); i++) {
        const char *wrong = NULL;
        assert_false(profile_settings_read(&settings, texts[i], &wrong));
        assert_ptr_equal(wrong, texts[i] + 2);
    }
    assert_false(read_settings("rate=64K"));
    assert_false(read_settings("signal=USR2,a"));
    assert_false(read_settings("peak"));
    assert_true(read_settings("./peak"));
    assert_true(read_settings("rate=64K.pb.gz,rate=1"));
    static char path[PROFILE_PATH_SIZE + 1];
    memset(path, 'p', PROFILE_PATH_SIZE);
    assert_false(read_settings(path));
    path[PROFILE_PATH_SIZE - 1] = '\0';
    assert_true(read_settings(path));
}

int main(void) {
    expect_allocator();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_enough),
        cmocka_unit_test(everything_at_once),
        cmocka_unit_test(a_budget_is_for_who_names_no_rate),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
