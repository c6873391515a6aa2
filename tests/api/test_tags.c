/* Thread tags: what is counted under them, as the statistics tell, however it is allocated and
 * whoever frees it. */
#include "support/support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "primalloc.h"
#include "support/names.h"

/* A preloaded library brings its names at run time only. */
#if !defined PRIM_TEST_PREFIXED && !defined PRIM_TEST_STATIC
#pragma weak prim_tag_push
#pragma weak prim_tag_pop
#pragma weak prim_tag_current
#pragma weak prim_heap_new
#pragma weak prim_heap_of
#pragma weak prim_heap_malloc
#pragma weak prim_heap_destroy
#pragma weak prim_stats_get
#pragma weak prim_stats_write
#endif

enum { DEPTH = 32, TAGS = 256 };

static char text[1 << 19];
static size_t text_length;

static void keep_text(const char *part, size_t length, void *context) {
    (void)context;
    assert_true(text_length + length < sizeof text);
    memcpy(text + text_length, part, length);
    text_length += length;
    text[text_length] = '\0';
}

static void write_stats(enum prim_stats_form form) {
    text_length = 0;
    assert_int_equal(prim_stats_write(form, keep_text, NULL), 0);
}

/* A figure of a tag's row, which is there once or not at all. */
static unsigned long figure_of(const char *tag, const char *figure) {
    char wanted[128];
    write_stats(PRIM_STATS_JSON);
    snprintf(wanted, sizeof wanted, "{\"kind\": \"tag\", \"name\": \"%s\"", tag);
    const char *row = strstr(text, wanted);
    if (!row) {
        return 0;
    }
    assert_null(strstr(row + 1, wanted));
    snprintf(wanted, sizeof wanted, "\"%s\": ", figure);
    const char *value = strstr(row, wanted);
    assert_non_null(value);
    return strtoul(value + strlen(wanted), NULL, 10);
}

/* A hardened heap keeps its blocks. */
static bool counts(void) {
    return getenv("PRIMALLOC_HARDENED") == NULL;
}

static void expect_live(const char *tag, unsigned long blocks) {
    unsigned long live = figure_of(tag, "live_blocks");
    CHECK(live == (counts() ? blocks : 0), "%lu blocks under %s, not %lu", live, tag, blocks);
}

static void expect_current(const char *name) {
    const char *current = prim_tag_current();
    if (name) {
        assert_non_null(current);
        assert_string_equal(current, name);
    } else {
        assert_null(current);
    }
}

static void test_every_way_to_get_a_block(void **state) {
    (void)state;
    enum { WAYS = 8, SIZES = 6 };
    static const size_t sizes[SIZES] = {0, 5, 100, 5000, 100000, 3000000};
    void *blocks[SIZES][WAYS];
    assert_true(prim_tag_push("every way"));
    expect_current("every way");
    for (int i = 0; i < SIZES; i++) {
        size_t size = sizes[i];
        blocks[i][0] = malloc(size);
        blocks[i][1] = calloc(1, size);
        blocks[i][2] = realloc(NULL, size);
        blocks[i][3] = aligned_alloc(64, (size + 63) / 64 * 64);
        blocks[i][4] = memalign(8192, size);
        blocks[i][5] = reallocarray(NULL, size, 1);
        assert_int_equal(posix_memalign(&blocks[i][6], 1 << 16, size), 0);
        blocks[i][7] = realloc(malloc(24), size + 1000);
    }
    prim_tag_pop();
    expect_current(NULL);
    size_t usable = 0;
    for (int i = 0; i < SIZES; i++) {
        for (int j = 0; j < WAYS; j++) {
            unsigned char *block = blocks[i][j];
            assert_non_null(block);
            assert_null(prim_heap_of(block));
            for (size_t at = 0; j == 1 && at < sizes[i]; at++) {
                assert_int_equal(block[at], 0);
            }
            memset(block, 0xa5, malloc_usable_size(block));
            usable += malloc_usable_size(block);
        }
        assert_int_equal((uintptr_t)blocks[i][3] % 64, 0);
        assert_int_equal((uintptr_t)blocks[i][4] % 8192, 0);
        assert_int_equal((uintptr_t)blocks[i][6] % (1 << 16), 0);
    }
    expect_live("every way", SIZES * WAYS);
    assert_int_equal(figure_of("every way", "live_bytes"), counts() ? usable : 0);
    for (int i = 0; i < SIZES; i++) {
        for (int j = 0; j < WAYS; j++) {
            free(blocks[i][j]);
        }
    }
    expect_live("every way", 0);
    assert_int_equal(figure_of("every way", "freed_blocks"),
                     figure_of("every way", "total_blocks"));
}

static void test_nesting(void **state) {
    (void)state;
    void *plain = opaque(malloc(100));
    assert_true(prim_tag_push("outer"));
    void *outer = opaque(malloc(100));
    assert_true(prim_tag_push("inner"));
    void *inner = opaque(malloc(100));
    assert_true(prim_tag_push(NULL));
    expect_current(NULL);
    void *untagged = opaque(malloc(100));
    assert_true(prim_tag_push("inner"));
    void *again = opaque(malloc(100));
    free(plain);
    prim_tag_pop();
    expect_current(NULL);
    prim_tag_pop();
    expect_current("inner");
    prim_tag_pop();
    expect_current("outer");
    assert_true(prim_tag_push(""));
    expect_current(NULL);
    prim_tag_pop();
    prim_tag_pop();
    expect_current(NULL);
    prim_tag_pop();
    expect_current(NULL);
    expect_live("outer", 1);
    expect_live("inner", 2);
    free(outer);
    free(inner);
    free(untagged);
    free(again);
    expect_live("outer", 0);
    expect_live("inner", 0);
}

static void test_realloc_leaves_a_block_where_it_is(void **state) {
    (void)state;
    prim_tag_push("grows");
    char *block = malloc(10);
    prim_tag_pop();
    fill_pattern(block, 10, 1);
    for (size_t size = 10; size < 5000000; size = size * 2 + 1) {
        prim_tag_push("another");
        block = realloc(block, size * 2 + 1);
        prim_tag_pop();
        assert_non_null(block);
        assert_int_equal(check_pattern(block, size, 1), size);
        fill_pattern(block, size * 2 + 1, 1);
    }
    expect_live("grows", 1);
    expect_live("another", 0);
    block = realloc(block, 100);
    assert_int_equal(check_pattern(block, 100, 1), 100);
    expect_live("grows", 1);
    assert_null(realloc(block, 0));
    expect_live("grows", 0);
    char *small = malloc(100); /* which has to move, also to where blocks have room to grow */
    char *medium = malloc(20000);
    prim_tag_push("grows");
    small = realloc(small, 1000);
    medium = realloc(medium, 40000);
    prim_tag_pop();
    expect_live("grows", 2);
    free(small);
    free(medium);
}

static void test_heaps_count_for_themselves(void **state) {
    (void)state;
    prim_heap_t *heap = prim_heap_new();
    prim_tag_push("beside a heap");
    void *block = prim_heap_malloc(heap, 100);
    assert_ptr_equal(prim_heap_of(block), heap);
    prim_tag_pop();
    expect_live("beside a heap", 0);
    prim_tag_push("beside a heap");
    prim_heap_t *inside = prim_heap_new();
    assert_non_null(prim_heap_malloc(inside, 100));
    prim_tag_pop();
    prim_heap_destroy(heap);
    prim_heap_destroy(inside);
    expect_live("beside a heap", 0);
}

static void test_depth(void **state) {
    (void)state;
    char name[32];
    for (int i = 0; i < DEPTH + 10; i++) {
        snprintf(name, sizeof name, "depth %d", i);
        errno = 0;
        assert_int_equal(prim_tag_push(name), i < DEPTH);
        assert_int_equal(errno, i < DEPTH ? 0 : ENOMEM);
    }
    for (int i = DEPTH + 10; i > 0; i--) {
        snprintf(name, sizeof name, "depth %d", i > DEPTH ? DEPTH - 1 : i - 1);
        expect_current(name);
        prim_tag_pop();
    }
    expect_current(NULL);
}

static void test_long_names(void **state) {
    (void)state;
    char name[100];
    memset(name, 'n', sizeof name);
    name[99] = '\0';
    assert_true(prim_tag_push(name));
    const char *kept = prim_tag_current();
    assert_int_equal(strlen(kept), 47);
    void *block = opaque(malloc(10));
    name[60] = '\0';
    assert_true(prim_tag_push(name));
    assert_ptr_equal(prim_tag_current(), kept);
    prim_tag_pop();
    name[46] = '\0';
    assert_true(prim_tag_push(name));
    assert_ptr_not_equal(prim_tag_current(), kept);
    prim_tag_pop();
    prim_tag_pop();
    name[46] = 'n';
    name[47] = '\0';
    expect_live(name, 1);
    free(block);
}

static void test_forms(void **state) {
    (void)state;
    prim_tag_push("in all forms");
    void *block = opaque(malloc(100));
    prim_tag_pop();
    write_stats(PRIM_STATS_TEXT);
    assert_non_null(strstr(text, "tag in all forms"));
    write_stats(PRIM_STATS_XML);
    assert_non_null(strstr(text, "in all forms"));
    write_stats(PRIM_STATS_OPENMETRICS);
    assert_non_null(strstr(text, "{kind=\"tag\",name=\"in all forms\"} "));
    struct prim_stats stats;
    prim_stats_get(&stats, sizeof stats);
    assert_true(stats.heap_blocks >= counts());
    free(block);
}

/* In no form may two tags have the same row, as those who read OpenMetrics refuse one of them. */
static void test_names_of_any_bytes(void **state) {
    (void)state;
    static const char *const names[] = {"\xc3\xa4", "\xc3\xb6", "a<b", "a>b", "50%", "a%3Cb"};
    static const char *const shown[] = {"%c3%a4", "%c3%b6", "a%3cb", "a%3eb", "50%25", "a%253Cb"};
    enum { COUNT = sizeof names / sizeof names[0] };
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        prim_tag_push(names[i]);
        blocks[i] = opaque(malloc(100));
        prim_tag_pop();
    }
    for (int i = 0; i < COUNT; i++) {
        expect_live(shown[i], 1);
        free(blocks[i]);
    }
}

static void *leave_with_tags(void *argument) {
    (void)argument;
    prim_tag_push("left behind");
    prim_tag_push("of a thread");
    return opaque(malloc(100));
}

static void *expect_no_tag(void *argument) {
    (void)argument;
    expect_current(NULL);
    prim_tag_pop();
    expect_current(NULL);
    return NULL;
}

static void test_end_of_a_thread(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) { /* the next thread gets the last one's cache */
        pthread_t thread;
        void *block;
        assert_int_equal(pthread_create(&thread, NULL, leave_with_tags, NULL), 0);
        pthread_join(thread, &block);
        expect_live("of a thread", 1);
        assert_int_equal(pthread_create(&thread, NULL, expect_no_tag, NULL), 0);
        pthread_join(thread, NULL);
        free(block);
    }
    expect_live("of a thread", 0);
}

enum { SLOTS = 64, ROUNDS = 3000, THREADS = 4 };
static _Atomic(void *) exchange[SLOTS];

/* Each block is freed by whoever finds it, under whatever tag. */
static void *trade(void *argument) {
    uintptr_t seed = (uintptr_t)argument;
    char name[32];
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        snprintf(name, sizeof name, "trade %d", (int)(seed >> 40 & 7));
        prim_tag_push(name);
        size_t size = seed >> 33 & 31 ? seed >> 50 & 1023 : seed >> 47;
        char *block = malloc(size);
        if (block) {
            memset(block, 1, size);
        }
        void *old = atomic_exchange(&exchange[seed >> 58], (void *)block);
        if (seed >> 45 & 1) {
            prim_tag_pop();
            free(realloc(old, 500));
        } else {
            free(old);
            prim_tag_pop();
        }
    }
    return NULL;
}

static void test_many_threads(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, trade, (void *)(i + 1)), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        free(exchange[i]);
    }
    for (int i = 0; i < 8; i++) {
        char name[32];
        snprintf(name, sizeof name, "trade %d", i);
        expect_live(name, 0);
        assert_true(!counts() || figure_of(name, "total_blocks") > 100);
    }
}

static void test_fork(void **state) {
    (void)state;
    prim_tag_push("forked");
    void *block = opaque(malloc(100));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const char *current = prim_tag_current();
        bool is_right = current && strcmp(current, "forked") == 0;
        void *another = opaque(malloc(100));
        free(block);
        prim_tag_pop();
        is_right =
            is_right && !prim_tag_current() && figure_of("forked", "live_blocks") == counts();
        free(another);
        is_right = is_right && figure_of("forked", "live_blocks") == 0;
        is_right = is_right && prim_tag_push("of the child") && prim_tag_current();
        _exit(is_right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    prim_tag_pop();
    expect_live("forked", 1);
    free(block);
}

/* The last of all: it fills the table. */
static void test_too_many(void **state) {
    (void)state;
    char name[32];
    int pushed = 0;
    for (int i = 0; i < TAGS + 10; i++) {
        snprintf(name, sizeof name, "number %d", i);
        prim_tag_push("outer");
        bool is_done = prim_tag_push(name);
        expect_current(is_done ? name : "outer");
        pushed += is_done;
        free(opaque(malloc(10)));
        prim_tag_pop();
        expect_current("outer");
        prim_tag_pop();
    }
    assert_true(pushed > TAGS / 2 && pushed < TAGS);
    assert_true(prim_tag_push("number 0"));
    prim_tag_pop();
    errno = 0;
    assert_false(prim_tag_push("one more"));
    assert_int_equal(errno, ENOMEM);
    expect_current(NULL);
    prim_tag_pop();
    write_stats(PRIM_STATS_JSON);
    int rows = 0;
    for (char *row = text; (row = strstr(row, "{\"kind\": \"tag\"")) != NULL; row++) {
        rows++;
    }
    assert_int_equal(rows, TAGS);
}

int main(void) {
    expect_allocator();
    watchdog_start(100, "tags");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_to_get_a_block),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_realloc_leaves_a_block_where_it_is),
        cmocka_unit_test(test_heaps_count_for_themselves),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_names_of_any_bytes),
        cmocka_unit_test(test_end_of_a_thread),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_too_many),
    };
    int failures = cmocka_run_group_tests_name("tags", tests, NULL, NULL);
    watchdog_stop();
    return failures;
}
