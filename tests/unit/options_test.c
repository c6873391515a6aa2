#include "settings/option_report.h"

#include <ctype.h>

#include "unit/unit.h"

enum row_type { BOOL, SIZE, AUTO_SIZE, TIME_MS, CHOICE, TEXT };

struct row {
    const char *name;
    enum row_type type;
    const void *value; /* of this option, in options */
    uint64_t initial;
    uint64_t minimum;
    uint64_t maximum;
    const char *unit;
};

static const struct row rows[] = {
#define OPTION(name, type, when, initial, minimum, maximum, unit, sentence) \
    {#name, type, &options.name, initial, minimum, maximum, unit},
#include "settings/options.def"
#undef OPTION
};

static struct options defaults;
static char errors[8192];

static uint64_t value_of(const struct row *row) {
    return *(const uint64_t *)row->value;
}

static void forget(void) {
    options = defaults;
    memset((void *)option_sources, 0, sizeof option_sources);
}

static void read_environment(const void *argument) {
    options_read((char **)(uintptr_t)argument);
}

/* Reads one variable, name=value, from the defaults on; returns how many lines that printed. */
static unsigned read_variable(const char *name, const char *value) {
    char variable[OPTION_TEXT_SIZE + 64];
    unsigned lines = 0;
    snprintf(variable, sizeof variable, "%s=%s", name, value);
    char *environment[] = {"HOME=/", variable, "PATH=/bin", NULL};
    forget();
    unit_capture_errors(errors, sizeof errors, read_environment, environment);
    for (const char *c = errors; *c; c++) {
        lines += *c == '\n';
    }
    return lines;
}

static unsigned set(const struct row *row, const char *value) {
    char name[64] = "PRIMALLOC_";
    size_t length = strlen(name);
    for (const char *c = row->name; *c; c++) {
        name[length++] = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    }
    return read_variable(name, value);
}

static unsigned set_number(const struct row *row, uint64_t value, const char *unit) {
    char text[64];
    snprintf(text, sizeof text, "%llu%s", (unsigned long long)value, unit);
    return set(row, text);
}

static void accept(const struct row *row, uint64_t value, const char *unit, uint64_t factor) {
    CHECK(set_number(row, value, unit) == 0, "%s=%llu%s: %s", row->name, (unsigned long long)value,
          unit, errors);
    CHECK(value_of(row) == value * factor, "%s=%llu%s sets %llu", row->name,
          (unsigned long long)value, unit, (unsigned long long)value_of(row));
}

static void refuse(const struct row *row, const char *value) {
    CHECK(set(row, value) == 1, "%s=%s printed: %s", row->name, value, errors);
    CHECK(strstr(errors, row->name) && strstr(errors, value), "no word of %s=%s in: %s", row->name,
          value, errors);
    CHECK(value_of(row) == row->initial, "%s=%s changed the option", row->name, value);
}

static void refuse_number(const struct row *row, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    refuse(row, text);
}

static void test_defaults(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        CHECK(value_of(&rows[i]) == rows[i].initial, "default of %s", rows[i].name);
        CHECK(rows[i].type == TEXT ||
                  (rows[i].type == AUTO_SIZE && rows[i].initial == OPTION_AUTO) ||
                  (rows[i].minimum <= rows[i].initial && rows[i].initial <= rows[i].maximum),
              "default of %s is out of its own range", rows[i].name);
    }
}

static bool is_number(const struct row *row) {
    return row->type == SIZE || row->type == AUTO_SIZE || row->type == TIME_MS;
}

static void test_ranges(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const struct row *row = &rows[i];
        if (is_number(row)) {
            accept(row, row->minimum, "", 1);
            accept(row, row->maximum, "", 1);
            refuse_number(row, row->maximum + 1);
            if (row->minimum > 0) {
                refuse_number(row, row->minimum - 1);
            }
            static const char *const wrong[] = {"-1",
                                                "x",
                                                "1x",
                                                "0x10",
                                                "1.5",
                                                " 1",
                                                "18446744073709551616",
                                                "99999999999999999999999"};
            for (size_t j = 0; j < ARRAY_LENGTH(wrong); j++) {
                refuse(row, wrong[j]);
            }
        }
    }
}

static void test_units(void **state) {
    (void)state;
    static const struct {
        const char *suffix;
        uint64_t factor;
    } units[] = {{"K", 1 << 10},   {"k", 1 << 10},    {"KiB", 1 << 10},   {"kb", 1 << 10},
                 {"M", 1 << 20},   {"MiB", 1 << 20},  {"mb", 1 << 20},    {"G", 1 << 30},
                 {"GiB", 1 << 30}, {"t", 1ull << 40}, {"TB", 1ull << 40}, {"TiB", 1ull << 40}};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const struct row *row = &rows[i];
        for (size_t j = 0; j < ARRAY_LENGTH(units); j++) {
            uint64_t value = row->minimum / units[j].factor + 1;
            if (row->type != TIME_MS && strcmp(row->unit, "bytes") == 0 &&
                value * units[j].factor <= row->maximum) {
                accept(row, value, units[j].suffix, units[j].factor);
            }
        }
        if (row->type == AUTO_SIZE) {
            CHECK(set(row, "auto") == 0 && value_of(row) == OPTION_AUTO, "%s=auto", row->name);
            refuse(row, "automatic");
        }
        if (row->type == SIZE || row->type == AUTO_SIZE) {
            refuse(row, "4Kx");
            refuse(row, "K");
            refuse(row, "8ms");
            refuse(row, "17179869184G"); /* 2 to the 64th */
        }
        if (row->type == TIME_MS) {
            accept(row, 7, "ms", 1);
            accept(row, 7, "s", 1000);
            accept(row, 7, "min", 60000);
            refuse(row, "7K");
            refuse(row, "7mins");
            refuse(row, "7m");
        }
    }
}

static void test_words(void **state) {
    (void)state;
    static const char *const on[] = {"1", "on", "yes", "true", "ON", "True"};
    static const char *const off[] = {"0", "off", "no", "false", "OFF"};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const struct row *row = &rows[i];
        for (size_t j = 0; row->type == BOOL && j < ARRAY_LENGTH(on); j++) {
            CHECK(set(row, on[j]) == 0 && value_of(row) == 1, "%s=%s", row->name, on[j]);
        }
        for (size_t j = 0; row->type == BOOL && j < ARRAY_LENGTH(off); j++) {
            CHECK(set(row, off[j]) == 0 && value_of(row) == 0, "%s=%s", row->name, off[j]);
        }
        if (row->type == BOOL || row->type == CHOICE) {
            refuse(row, "2");
            refuse(row, "maybe");
        }
        uint64_t index = 0;
        char words[64];
        snprintf(words, sizeof words, "%s", row->unit);
        char *rest = words;
        for (char *word; row->type == CHOICE && (word = strsep(&rest, "|")); index++) {
            CHECK(set(row, word) == 0 && value_of(row) == index, "%s=%s", row->name, word);
            word[0] = (char)toupper(word[0]);
            CHECK(set(row, word) == 0 && value_of(row) == index, "%s=%s", row->name, word);
        }
        CHECK(row->type != CHOICE || index == row->maximum + 1, "words of %s", row->name);
    }
}

static void test_text(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        if (rows[i].type == TEXT) {
            assert_int_equal(set(&rows[i], "/tmp/a file=1,b"), 0);
            assert_string_equal(*(const char *const *)rows[i].value, "/tmp/a file=1,b");
            assert_int_equal(set(&rows[i], ""), 0);
            assert_null(*(const char *const *)rows[i].value);
        }
    }
}

/* A path that is cut would be another file's. */
static void test_long_text(void **state) {
    (void)state;
    char path[OPTION_TEXT_SIZE + 1];
    memset(path, 'a', OPTION_TEXT_SIZE);
    path[OPTION_TEXT_SIZE] = '\0';
    assert_int_equal(read_variable("PRIMALLOC_STATS_OUTPUT", path), 1);
    assert_non_null(strstr(errors, "'stats_output', which takes a path"));
    assert_memory_equal(&options, &defaults, sizeof options);
    assert_int_equal(read_variable("PRIMALLOC_STATS_OUTPUT", path + 1), 0);
    assert_string_equal(options.stats_output, path + 1);
}

/* All of the longest, given twice: each has its room. */
static void test_longest_texts(void **state) {
    (void)state;
    static const char *const names[] = {"stats_output", "profile", "leak_report", "leak_suppress"};
    static const char *const *const texts[] = {&options.stats_output, &options.profile,
                                               &options.leak_report, &options.leak_suppress};
    char path[OPTION_TEXT_SIZE];
    char list[5 * OPTION_TEXT_SIZE] = "";
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        memset(path, (int)('a' + i), sizeof path - 1);
        path[sizeof path - 1] = '\0';
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s=%s,", names[i], path);
    }
    char variable[sizeof list + 32];
    snprintf(variable, sizeof variable, "PRIMALLOC_OPTIONS=%s", list);
    char *environment[] = {variable, NULL};
    for (unsigned round = 0; round < 2; round++) {
        forget();
        unit_capture_errors(errors, sizeof errors, read_environment, environment);
        assert_string_equal(errors, "");
        for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
            assert_non_null(*texts[i]);
            assert_int_equal(strlen(*texts[i]), OPTION_TEXT_SIZE - 1);
            assert_int_equal(strspn(*texts[i], (char[2]){(char)('a' + i)}), OPTION_TEXT_SIZE - 1);
        }
    }
    forget();
}

static void test_unknown_names(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char name[64];
        char hint[64];
        snprintf(name, sizeof name, "PRIMALLOC_%sq", rows[i].name);
        snprintf(hint, sizeof hint, "did you mean '%s'", rows[i].name);
        CHECK(read_variable(name, "1") == 1, "%s printed: %s", name, errors);
        CHECK(strstr(errors, hint) && strstr(errors, name + strlen("PRIMALLOC_")), "%s printed: %s",
              name, errors);
        assert_memory_equal(&options, &defaults, sizeof options);
    }
    assert_int_equal(read_variable("PRIMALLOC_XYZZY", "1"), 1);
    assert_null(strstr(errors, "did you mean"));
    assert_non_null(strstr(errors, "unknown option 'XYZZY': PRIMALLOC_OPTIONS=help"));
    char long_name[200] = "PRIMALLOC_";
    memset(long_name + strlen(long_name), 'Q', 150);
    assert_int_equal(read_variable(long_name, "1"), 1);
    assert_true(strlen(errors) < 320);
}

static void test_names_of_others(void **state) {
    (void)state;
    assert_int_equal(read_variable("PRIMALLOC_HANDSHAKE", "3:4:5"), 0);
    assert_int_equal(read_variable("PRIMALLOC_LIBRARY", "/lib/x.so"), 0);
    assert_int_equal(read_variable("PRIMALLO_PURGE", "0"), 0);
    assert_int_equal(read_variable("MY_PRIMALLOC_PURGE", "0"), 0);
    assert_memory_equal(&options, &defaults, sizeof options);
    options_read(NULL);
}

static void test_list(void **state) {
    (void)state;
    assert_int_equal(read_variable("PRIMALLOC_OPTIONS", "purge=0,shards=3,,purge_delay=2s,verbose"),
                     0);
    assert_int_equal(options.purge, 0);
    assert_int_equal(options.shards, 3);
    assert_int_equal(options.purge_delay, 2000);
    assert_int_equal(options.verbose, 1);
    assert_int_equal(read_variable("PRIMALLOC_OPTIONS", "shards=999,nothing=1,purge=0,help=1"), 3);
    assert_non_null(strstr(errors, "999"));
    assert_non_null(strstr(errors, "nothing"));
    assert_int_equal(options.shards, defaults.shards);
    assert_int_equal(options.purge, 0);
    assert_int_equal(read_variable("PRIMALLOC_OPTIONS", "shards=2,shards=5"), 0);
    assert_int_equal(options.shards, 5);
    assert_int_equal(read_variable("PRIMALLOC_OPTIONS", ""), 0);
    assert_int_equal(read_variable("PRIMALLOC_OPTIONS", "="), 1);
}

/* By its name alone an option of 0 or 1 is switched on; others say what they take. */
static void test_list_of_names(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const struct row *row = &rows[i];
        if (row->type == BOOL) {
            CHECK(read_variable("PRIMALLOC_OPTIONS", row->name) == 0 && value_of(row) == 1,
                  "%s printed: %s", row->name, errors);
        } else {
            char told[64];
            snprintf(told, sizeof told, "value 'on' for option '%s', which takes ", row->name);
            CHECK(read_variable("PRIMALLOC_OPTIONS", row->name) == 1 && strstr(errors, told) &&
                      value_of(row) == row->initial,
                  "%s printed: %s", row->name, errors);
        }
    }
}

/* Reads variables, NAME=value, from the defaults on. */
static void read_variables(const char *first, const char *second) {
    const char *environment[] = {first, second, NULL};
    forget();
    unit_capture_errors(errors, sizeof errors, read_environment, environment);
}

static void test_precedence(void **state) {
    (void)state;
    static const char *const rising[] = {"MALLOC_ARENA_MAX=1",
                                         "GLIBC_TUNABLES=glibc.malloc.arena_max=2",
                                         "PRIMALLOC_OPTIONS=shards=3", "PRIMALLOC_SHARDS=4"};
    for (size_t low = 0; low < ARRAY_LENGTH(rising); low++) {
        for (size_t high = low + 1; high < ARRAY_LENGTH(rising); high++) {
            read_variables(rising[low], rising[high]);
            assert_int_equal(options.shards, high + 1);
            read_variables(rising[high], rising[low]);
            assert_int_equal(options.shards, high + 1);
        }
    }
}

static void test_errors_speak_units(void **state) {
    (void)state;
    assert_int_equal(read_variable("PRIMALLOC_CACHE_THREAD", "2G"), 1);
    assert_non_null(strstr(errors, "'2G' for option 'cache_thread', which takes 4 KiB to 1 GiB\n"));
    assert_int_equal(read_variable("PRIMALLOC_PURGE_DELAY", "61min"), 1);
    assert_non_null(strstr(errors, "takes 0 to 60 min\n"));
    assert_int_equal(read_variable("PRIMALLOC_MIN_ALIGN", "7"), 1);
    assert_non_null(strstr(errors, "takes 8 to 16 bytes\n"));
    assert_int_equal(read_variable("PRIMALLOC_THP", "maybe"), 1);
    assert_non_null(strstr(errors, "takes auto, always or never\n"));
    assert_int_equal(read_variable("PRIMALLOC_SOFT_LIMIT", "most"), 1);
    assert_non_null(strstr(errors, "takes auto, 0 to 128 TiB\n"));
    assert_int_equal(read_variable("PRIMALLOC_PURGE", "maybe"), 1);
    assert_non_null(strstr(errors, "takes 0 or 1\n"));
}

static void print_settings(const void *argument) {
    (void)argument;
    report_settings();
}

static void test_settings_tell_their_sources(void **state) {
    (void)state;
    static const char *const lines[] = {
        "\n  cache_total     128 MiB    default\n",
        "\n  shards          3 shards   PRIMALLOC_SHARDS\n",
        "\n  purge_delay     2 s        PRIMALLOC_OPTIONS\n",
        "\n  stats_output    /tmp/x     PRIMALLOC_OPTIONS\n",
        "\n  top_pad         64 KiB     MALLOC_TOP_PAD_\n",
        "\n  trim_threshold  128 TiB    GLIBC_TUNABLES\n",
        "\n  thp             always     GLIBC_TUNABLES\n",
        "\n  mmap_max        7          mallopt\n",
        "\n  perturb         9          prim_option_set\n",
    };
    const char *environment[] = {
        "MALLOC_TOP_PAD_=65536", "PRIMALLOC_OPTIONS=purge_delay=2000,stats_output=/tmp/x",
        "PRIMALLOC_SHARDS=3",
        "GLIBC_TUNABLES=glibc.malloc.trim_threshold=-1:glibc.malloc.hugetlb=1", NULL};
    forget();
    options_read((char **)(uintptr_t)environment);
    option_set(option_row_named("mmap_max", 8), 7, SOURCE_MALLOPT);
    option_set(option_row_named("perturb", 7), 9, SOURCE_PROGRAM);
    unit_capture_errors(errors, sizeof errors, print_settings, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        CHECK(strstr(errors, lines[i]), "no line %s in:\n%s", lines[i], errors);
    }
    forget();
}

static void test_help(void **state) {
    (void)state;
    enum { FRAME_LINES = 6 }; /* around the table: two before, its head, three after */
    assert_int_equal(read_variable("PRIMALLOC_OPTIONS", "help"), ARRAY_LENGTH(rows) + FRAME_LINES);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char name[64];
        snprintf(name, sizeof name, "  %s ", rows[i].name);
        CHECK(strstr(errors, name), "help does not tell of %s", rows[i].name);
    }
    assert_non_null(strstr(errors, " 128 MiB "));
    assert_non_null(strstr(errors, " auto, always or never "));
    assert_null(strstr(errors, "134217728"));
    char *end;
    for (char *line = strtok_r(errors, "\n", &end); line; line = strtok_r(NULL, "\n", &end)) {
        CHECK(strlen(line) <= 136, "wide: %s", line);
    }
    assert_memory_equal(&options, &defaults, sizeof options);
}

int main(void) {
    defaults = options;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_longest_texts),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_names_of_others),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_list_of_names),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_errors_speak_units),
        cmocka_unit_test(test_settings_tell_their_sources),
        cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
