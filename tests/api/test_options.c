/* The options as a program sees them: read, set and listed by name, from the same table as the
 * environment's; what is printed and what goes wrong, told to functions of the program. */
#include "support/support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "primalloc.h"
#include "support/names.h"

static uint64_t value_of(const char *name) {
    uint64_t value = 12345;
    assert_int_equal(prim_option_get(name, &value), 0);
    return value;
}

static void expect_text(const char *name, const char *expected) {
    char text[32];
    assert_int_equal(prim_option_get_text(name, text, sizeof text), 0);
    assert_string_equal(text, expected);
}

static void test_get(void **state) {
    (void)state;
    uint64_t value = 7;
    assert_true(value_of("cache_total") == 128 << 20);
    assert_true(value_of("Cache_Total") == 128 << 20);
    expect_text("cache_total", "128 MiB");
    expect_text("purge_delay", "500 ms");
    expect_text("thp", "auto");
    assert_int_equal(prim_option_get("no_such_option", &value), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(prim_option_get("stats_output", &value), -1);
    assert_int_equal(errno, EINVAL);
    assert_true(value == 7);
    expect_text("stats_output", "not set");
    char small[4] = "xxx";
    assert_int_equal(prim_option_get_text("cache_total", small, sizeof small), 0);
    assert_string_equal(small, "128");
    assert_int_equal(prim_option_get_text("cache_total", NULL, 0), 0);
}

static void test_set(void **state) {
    (void)state;
    assert_int_equal(prim_option_set("top_pad", 65536), 0);
    assert_true(value_of("top_pad") == 65536);
    assert_int_equal(prim_option_set_text("top_pad", "2M"), 0);
    expect_text("top_pad", "2 MiB");
    assert_int_equal(mallopt(M_TOP_PAD, 4096), 1); /* the last call wins */
    assert_true(value_of("top_pad") == 4096);
    assert_int_equal(prim_option_set("top_pad", 0), 0);
    assert_true(value_of("top_pad") == 0);
    uint64_t shards = value_of("shards");
    assert_int_equal(mallopt(M_ARENA_MAX, -1), 1); /* which glibc ignores */
    assert_true(value_of("shards") == shards);
    assert_int_equal(prim_option_set("trim_threshold", PRIM_OPTION_AUTO), 0);
    expect_text("trim_threshold", "auto");
    assert_int_equal(prim_option_set_text("trim_threshold", "auto"), 0);
}

static void expect_refusal(int result, int error) {
    assert_int_equal(result, -1);
    assert_int_equal(errno, error);
}

static void test_set_refuses(void **state) {
    (void)state;
    uint64_t before = value_of("shards");
    expect_refusal(prim_option_set("shards", 65), EINVAL);
    expect_refusal(prim_option_set("shards", PRIM_OPTION_AUTO), EINVAL);
    expect_refusal(prim_option_set_text("shards", "many"), EINVAL);
    expect_refusal(prim_option_set_text("shards", ""), EINVAL);
    assert_true(value_of("shards") == before);
    expect_refusal(prim_option_set("nothing", 1), ENOENT);
    expect_refusal(prim_option_set_text("nothing", "1"), ENOENT);
    expect_refusal(prim_option_set("cache_total", 1 << 20), EPERM);
    expect_refusal(prim_option_set("cache_total", 1), EINVAL);
    expect_refusal(prim_option_set_text("stats_output", "/tmp/x"), EPERM);
    expect_refusal(prim_option_set("stats_output", 1), EINVAL);
    assert_true(value_of("cache_total") == 128 << 20);
}

/* In a child: nothing takes it back here either. */
static void test_confined_stays(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        bool stays = prim_option_set("confined", 0) == 0 && prim_option_set("confined", 1) == 0 &&
                     prim_option_set("confined", 1) == 0 && prim_option_set("confined", 0) == -1 &&
                     errno == EPERM && value_of("confined") == 1;
        _exit(stays ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_set_takes_effect(void **state) {
    (void)state;
    const size_t size = 300000;
    assert_int_equal(prim_option_set("perturb", 0x55), 0);
    unsigned char *block = opaque(malloc(size));
    assert_non_null(block);
    assert_int_equal(block[0], 0xaa);
    assert_int_equal(block[size - 1], 0xaa);
    assert_int_equal(prim_option_set("perturb", 0), 0);
    free(block);
    assert_int_equal(prim_option_set_text("hard_limit", "64K"), 0);
    block = opaque(malloc(64 << 20));
    assert_int_equal(prim_option_set("hard_limit", 0), 0);
    assert_null(block);
    block = opaque(malloc(64 << 20));
    assert_non_null(block);
    free(block);
}

struct listed {
    unsigned count;
    unsigned changeable;
    bool has_shards;
};

static void look(const struct prim_option *option, void *context) {
    struct listed *listed = context;
    uint64_t value = 0;
    listed->count++;
    listed->changeable += option->can_change != 0;
    assert_true(strlen(option->name) > 0 && strlen(option->sentence) > 0);
    if (option->type == PRIM_OPTION_TEXT) {
        assert_int_equal(prim_option_get(option->name, &value), -1);
        return;
    }
    assert_int_equal(prim_option_get(option->name, &value), 0);
    assert_true(value == option->value);
    assert_int_equal(prim_option_set(option->name, option->value), option->can_change ? 0 : -1);
    if (strcmp(option->name, "shards") == 0) {
        listed->has_shards = true;
        assert_int_equal(option->type, PRIM_OPTION_SIZE);
        assert_int_equal(option->source, PRIM_OPTION_FROM_PROGRAM);
        assert_true(option->value == 3 && option->initial == 0 && option->maximum == 64);
        assert_string_equal(option->unit, "shards");
    }
}

static void test_list(void **state) {
    (void)state;
    struct listed listed = {0};
    assert_int_equal(prim_option_set("shards", 3), 0);
    size_t count = prim_option_list(look, &listed);
    assert_int_equal(count, listed.count);
    assert_int_equal(count, prim_option_list(NULL, NULL));
    assert_true(count > 20 && listed.changeable > 5 && listed.changeable < count);
    assert_true(listed.has_shards);
    assert_int_equal(prim_option_set("shards", 0), 0);
}

struct heard {
    unsigned count;
    int error;
    char message[128];
};

static void hear(int error, const char *message, void *context) {
    struct heard *heard = context;
    heard->count++;
    heard->error = error;
    snprintf(heard->message, sizeof heard->message, "%s", message);
    free(opaque(malloc(100))); /* it may */
    errno = 0;
}

static void test_errors_are_told(void **state) {
    (void)state;
    static long long variable[8];
    static struct heard heard;
    prim_error_set(hear, &heard);
    errno = 0;
    assert_null(opaque(malloc(PTRDIFF_MAX)));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.error, ENOMEM);
    assert_non_null(strstr(heard.message, "9223372036854775807 bytes"));
    free(opaque(&variable[4]));
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.error, EINVAL);
    assert_non_null(strstr(heard.message, "free of 0x"));
    assert_null(opaque(realloc(opaque(&variable[4]), 10)));
    assert_int_equal(heard.count, 3);
    prim_error_set(NULL, NULL);
    assert_null(opaque(malloc(PTRDIFF_MAX)));
    assert_int_equal(heard.count, 3);
}

/* Standard error gets so many lines and no more. */
static void test_show_errors(void **state) {
    (void)state;
    static char text[8192];
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    assert_null(opaque(malloc(PTRDIFF_MAX)));
    assert_int_equal(prim_option_set("show_errors", 1), 0);
    for (int i = 0; i < 100; i++) {
        assert_null(opaque(malloc(PTRDIFF_MAX)));
    }
    assert_int_equal(prim_option_set("show_errors", 0), 0);
    assert_null(opaque(malloc(PTRDIFF_MAX)));
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    unsigned lines = 0;
    for (size_t i = 0; i < length; i++) {
        lines += text[i] == '\n';
    }
    assert_int_equal(lines, 16);
    assert_memory_equal(text, "primalloc: no memory", 20);
}

static void gather(const char *text, size_t length, void *context) {
    char *all = context;
    strncat(all, text, length);
}

static void test_output_is_told(void **state) {
    (void)state;
    static char text[1 << 16];
    prim_output_set(gather, text);
    malloc_stats();
    prim_output_set(NULL, NULL);
    assert_true(strlen(text) > 20);
    assert_non_null(strstr(text, "primalloc"));
}

int main(void) {
    expect_allocator();
    watchdog_start(60, "api/test_options");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_set_refuses),
        cmocka_unit_test(test_set_takes_effect),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_errors_are_told),
        cmocka_unit_test(test_show_errors),
        cmocka_unit_test(test_output_is_told),
        cmocka_unit_test(test_confined_stays),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
