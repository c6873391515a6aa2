/* T37: what the C library allocates for its caller comes from the heap under test and ends there,
 * and what it frees or resizes on the caller's behalf may come from there. */
#include "support/support.h"

#include <argz.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <regex.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <cmocka.h>

#include "support/names.h"

/* The block is ours when its usable size is plausible, when it can grow, and when it can be freed.
 * */
static void check_and_free(void *block, size_t size) {
    assert_non_null(block);
    assert_true(malloc_usable_size(block) >= size);
    if (!is_reference_allocator()) {
        assert_true(malloc_usable_size(block) <= 2 * size + 65536);
    }
    void *grown = opaque(realloc(block, size + 10000));
    assert_non_null(grown);
    free(grown);
}

static void test_t37_string_copies(void **state) {
    (void)state;
    static char text[100001];
    for (size_t length = 0; length < sizeof text - 1; length = length * 3 + 1) {
        memset(text, 'x', length);
        text[length] = '\0';
        char *copy = strdup(text);
        assert_string_equal(copy, text);
        check_and_free(copy, length + 1);
        check_and_free(strndup(text, length / 2), length / 2 + 1);
        free(strdup(text));
    }
    wchar_t *wide = wcsdup(L"wide characters");
    check_and_free(wide, 16 * sizeof(wchar_t));
}

static void test_t37_formatted_strings(void **state) {
    (void)state;
    char *text = NULL;
    for (int width = 1; width < 50000; width *= 3) {
        assert_int_equal(asprintf(&text, "%*d", width, 7), width);
        check_and_free(text, (size_t)width + 1);
    }
    char *word = NULL;
    assert_int_equal(sscanf("alpha beta", "%*s %ms", &word), 1);
    assert_string_equal(word, "beta");
    check_and_free(word, 5);
}

static void test_t37_getline_grows_our_block(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    for (int i = 0; i < 200; i++) {
        fprintf(file, "%0*d\n", i * 37 + 1, i);
    }
    rewind(file);
    size_t capacity = 5;
    char *line = malloc(capacity);
    ssize_t length;
    int count = 0;
    while ((length = getline(&line, &capacity, file)) >= 0) {
        assert_int_equal(length, count * 37 + 2);
        assert_true(malloc_usable_size(line) >= capacity);
        count++;
    }
    assert_int_equal(count, 200);
    check_and_free(line, capacity);
    rewind(file);
    line = NULL;
    capacity = 0;
    assert_true(getdelim(&line, &capacity, '9', file) > 0);
    check_and_free(line, capacity);
    fclose(file);
}

static void test_t37_paths(void **state) {
    (void)state;
    char *path = realpath("/proc/self/../self/exe", NULL);
    check_and_free(path, strlen(path) + 1);
    path = getcwd(NULL, 0);
    check_and_free(path, strlen(path) + 1);
    path = get_current_dir_name();
    check_and_free(path, strlen(path) + 1);
    path = canonicalize_file_name("/dev/null");
    assert_string_equal(path, "/dev/null");
    check_and_free(path, strlen(path) + 1);
}

static void test_t37_memory_streams(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    for (int i = 0; i < 20000; i++) {
        fprintf(stream, "%d ", i);
    }
    fclose(stream);
    assert_true(size > 100000);
    assert_non_null(strstr(text, " 19999 "));
    check_and_free(text, size);

    static char buffer[4096];
    stream = fmemopen(buffer, sizeof buffer, "w+");
    assert_non_null(stream);
    assert_int_equal(fprintf(stream, "fixed"), 5);
    fclose(stream);
    assert_string_equal(buffer, "fixed");
}

static int accept_all(const struct dirent *entry) {
    (void)entry;
    return 1;
}

static void test_directory_lists(void **state) {
    (void)state;
    struct dirent **entries = NULL;
    int count = scandir("/proc/self", &entries, accept_all, alphasort);
    assert_true(count > 10);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    check_and_free(entries, (size_t)count * sizeof *entries);
}

static void test_argument_vectors_resize_our_block(void **state) {
    (void)state;
    char *vector = strdup("first");
    size_t length = 6;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(argz_add(&vector, &length, "another argument"), 0);
    }
    assert_int_equal(argz_count(vector, length), 1001);
    check_and_free(vector, length);
}

static void free_node(void *node) {
    free(node);
}

static int compare_text(const void *left, const void *right) {
    return strcmp(left, right);
}

/* tsearch allocates its nodes, tdestroy frees them and calls our free for the keys. */
static void test_search_trees(void **state) {
    (void)state;
    void *root = NULL;
    char *word = NULL;
    for (int i = 0; i < 2000; i++) {
        assert_true(asprintf(&word, "key %d", i * 7919 % 2000) > 0);
        assert_non_null(tsearch(word, &root, compare_text));
    }
    assert_non_null(tfind("key 1234", &root, compare_text));
    tdestroy(root, free_node);
}

static void test_environment(void **state) {
    (void)state;
    char name[32];
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "PRIM_TEST_VARIABLE_%d", i);
        assert_int_equal(setenv(name, "value", 1), 0);
        assert_int_equal(setenv(name, "a longer value than before", 1), 0);
        assert_string_equal(getenv(name), "a longer value than before");
    }
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "PRIM_TEST_VARIABLE_%d", i);
        assert_int_equal(unsetenv(name), 0);
    }
}

static void test_regular_expressions_and_sorting(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        regex_t expression;
        assert_int_equal(regcomp(&expression, "^(a+|b+)*c[0-9]{2,5}$", REG_EXTENDED), 0);
        assert_int_equal(regexec(&expression, "aaabbbabc123", 0, NULL, 0), 0);
        regfree(&expression);
    }
    enum { COUNT = 5000, WIDTH = 40 };
    char(*rows)[WIDTH] = malloc(COUNT * sizeof *rows);
    assert_non_null(rows);
    for (int i = 0; i < COUNT; i++) {
        snprintf(rows[i], WIDTH, "%05d", i * 7919 % COUNT);
    }
    qsort(rows, COUNT, WIDTH, compare_text);
    assert_string_equal(rows[0], "00000");
    assert_string_equal(rows[COUNT - 1], "04999");
    free(rows);
}

static void test_streams_and_processes(void **state) {
    (void)state;
    FILE *files[64];
    for (int i = 0; i < 64; i++) {
        files[i] = fopen("/dev/null", "w");
        assert_non_null(files[i]);
        fprintf(files[i], "%1000d", i);
    }
    for (int i = 0; i < 64; i++) {
        fclose(files[i]);
    }
    char *line = NULL;
    size_t capacity = 0;
    FILE *pipe = popen("echo from a child", "r");
    assert_non_null(pipe);
    assert_true(getline(&line, &capacity, pipe) > 0);
    assert_string_equal(line, "from a child\n");
    assert_int_equal(pclose(pipe), 0);
    free(line);
}

#if !defined PRIM_TEST_FULLY_STATIC
static void test_name_service(void **state) {
    (void)state;
    struct addrinfo *addresses = NULL;
    for (int i = 0; i < 10; i++) {
        if (getaddrinfo("127.0.0.1", "80", NULL, &addresses) == 0) {
            freeaddrinfo(addresses);
        }
    }
}
#endif

int main(void) {
    expect_allocator();
    watchdog_start(60, "api/test_libc_callers");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t37_string_copies),
        cmocka_unit_test(test_t37_formatted_strings),
        cmocka_unit_test(test_t37_getline_grows_our_block),
        cmocka_unit_test(test_t37_paths),
        cmocka_unit_test(test_t37_memory_streams),
        cmocka_unit_test(test_directory_lists),
        cmocka_unit_test(test_argument_vectors_resize_our_block),
        cmocka_unit_test(test_search_trees),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_regular_expressions_and_sorting),
        cmocka_unit_test(test_streams_and_processes),
#if !defined PRIM_TEST_FULLY_STATIC
        cmocka_unit_test(test_name_service),
#endif
    };
    return cmocka_run_group_tests_name("libc's allocating functions", tests, NULL, NULL);
}
