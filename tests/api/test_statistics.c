/* The statistics as a program sees them: structs that grow with the library, classes, and every
 * form while many threads allocate. What the figures say is unit.snapshot's to test, what the forms
 * look like tests/preload/test_statistics.py's. */
#include "support/support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "primalloc.h"
#include "support/names.h"

enum { THREADS = 64, CLASS_ROOM = 200 };

static void expect_balance(const struct prim_stats *stats) {
    assert_true(stats->live_bytes + stats->large_bytes + stats->cached_bytes +
                    stats->partial_bytes + stats->uncarved_bytes + stats->asleep_bytes +
                    stats->dirty_bytes + stats->clean_bytes + stats->heap_bytes +
                    stats->heap_free_bytes ==
                stats->mapped_bytes);
}

static void test_a_block_counts(void **state) {
    (void)state;
    struct prim_stats before;
    struct prim_stats with;
    assert_int_equal(prim_stats_get(&before, sizeof before), sizeof before);
    void *small = opaque(malloc(1000));
    void *large = opaque(malloc(1 << 20));
    assert_int_equal(prim_stats_get(&with, sizeof with), sizeof with);
    assert_true(with.live_bytes - before.live_bytes == malloc_usable_size(small));
    assert_true(with.live_blocks - before.live_blocks == 1);
    assert_true(with.large_bytes - before.large_bytes == malloc_usable_size(large));
    assert_true(with.large_blocks - before.large_blocks == 1);
    expect_balance(&with);
    struct mallinfo2 info = mallinfo2();
    assert_true(info.uordblks == with.live_bytes + with.large_bytes + with.heap_bytes);
    assert_true(info.arena == with.mapped_bytes);
    assert_true(info.uordblks + info.fordblks == info.arena);
    assert_true(info.fsmblks == with.cached_bytes);
    free(small);
    free(large);
    assert_int_equal(prim_stats_get(&with, sizeof with), sizeof with);
    assert_true(with.live_bytes == before.live_bytes && with.large_bytes == before.large_bytes);
}

static void keep_text(const char *text, size_t length, void *context) {
    strncat(context, text, length);
}

/* Blocks of heaps have figures of their own, and each heap a row. */
static void test_heaps(void **state) {
    (void)state;
    static char text[1 << 17];
    struct prim_stats before;
    struct prim_stats with;
    struct prim_heap_stats of_heap;
    prim_stats_get(&before, sizeof before);
    prim_heap_t *heap = prim_heap_new();
    prim_heap_set_name(heap, "requests <&\"> of a name that is too long to be kept whole");
    prim_heap_set_name(heap, NULL);
    prim_heap_set_limit(heap, 10 << 20);
    char *small = prim_heap_malloc(heap, 1000);
    void *large = prim_heap_malloc(heap, 1 << 20);
    small = realloc(small, 1800);
    prim_stats_get(&with, sizeof with);
    expect_balance(&with);
    size_t live = malloc_usable_size(small) + malloc_usable_size(large);
    assert_true(with.heap_bytes - before.heap_bytes == live);
    assert_true(with.heap_blocks - before.heap_blocks == 2 && with.heaps - before.heaps == 1);
    assert_true(with.large_bytes == before.large_bytes);
    assert_true(with.large_blocks == before.large_blocks);
    assert_int_equal(prim_heap_stats_get(heap, &of_heap, sizeof of_heap), sizeof of_heap);
    assert_true(of_heap.live_bytes == live && of_heap.live_blocks == 2);
    assert_true(of_heap.total_blocks == 3 && of_heap.freed_blocks == 1);
    assert_true(of_heap.total_bytes - of_heap.freed_bytes == live);
    assert_true(of_heap.peak_bytes >= live && of_heap.limit_bytes == 10 << 20);
    assert_true(of_heap.area_bytes == live + of_heap.free_bytes);
    prim_stats_write(PRIM_STATS_JSON, keep_text, text);
    assert_non_null(strstr(text, "\"name\": \"requests %3c%26%22%3e of a name that is too long"));
    prim_output_set(keep_text, text);
    text[0] = '\0';
    prim_heap_stats_print(heap);
    assert_non_null(strstr(text, "heap requests"));
    assert_non_null(strstr(text, "not all freed\n"));
    free(small);
    free(large);
    text[0] = '\0';
    prim_heap_stats_print(heap);
    assert_non_null(strstr(text, " ok\n"));
    prim_output_set(NULL, NULL);
    prim_heap_destroy(heap);
    prim_stats_get(&with, sizeof with);
    assert_true(with.heap_bytes == before.heap_bytes && with.heaps == before.heaps);
    expect_balance(&with);
}

/* Older programs know fewer figures, newer ones more. */
static void test_sizes_of_the_struct(void **state) {
    (void)state;
    struct {
        struct prim_stats known;
        uint64_t unknown[3];
    } later;
    memset(&later, 0x55, sizeof later);
    assert_int_equal(prim_stats_get(&later.known, sizeof later), sizeof later.known);
    assert_true(later.unknown[0] == 0 && later.unknown[1] == 0 && later.unknown[2] == 0);
    expect_balance(&later.known);
    memset(&later, 0x55, sizeof later);
    size_t earlier = offsetof(struct prim_stats, mapped_bytes);
    assert_int_equal(prim_stats_get(&later.known, earlier), sizeof later.known);
    assert_true(later.known.mapped_bytes == 0x5555555555555555u);
    assert_true(later.known.clean_bytes != 0x5555555555555555u);
    assert_int_equal(prim_stats_get(NULL, 0), sizeof later.known);
}

static void test_classes(void **state) {
    (void)state;
    static struct prim_class_stats classes[CLASS_ROOM];
    struct prim_stats stats;
    size_t count = prim_stats_classes(classes, CLASS_ROOM, sizeof classes[0]);
    prim_stats_get(&stats, sizeof stats);
    assert_true(count >= 2 && count < CLASS_ROOM);
    uint64_t live = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true((classes[i].block_bytes == 0) == (i + 1 == count));
        assert_true(i == 0 || i + 1 == count ||
                    classes[i].block_bytes > classes[i - 1].block_bytes);
        live += classes[i].live_bytes;
    }
    assert_true(live == stats.live_bytes + stats.large_bytes);
    uint64_t sizes[2] = {0, 1};
    assert_int_equal(prim_stats_classes((struct prim_class_stats *)sizes, 1, 8), count);
    assert_true(sizes[0] == classes[0].block_bytes && sizes[1] == 1);
    assert_int_equal(prim_stats_classes(NULL, 0, 0), count);
}

static void count_pieces(const char *text, size_t length, void *context) {
    size_t *total = context;
    CHECK(length > 0 && text[length - 1] == '\n', "a piece does not end with a line");
    *total += length;
}

static void test_forms(void **state) {
    (void)state;
    for (int form = PRIM_STATS_TEXT; form <= PRIM_STATS_OPENMETRICS; form++) {
        size_t total = 0;
        assert_int_equal(prim_stats_write((enum prim_stats_form)form, count_pieces, &total), 0);
        assert_true(total > 1000 && total < 1000000);
    }
    errno = 0;
    assert_int_equal(prim_stats_write((enum prim_stats_form)99, count_pieces, NULL), -1);
    assert_int_equal(errno, EINVAL);
}

static atomic_bool stop;

static void *churn(void *argument) {
    struct random random = {(uintptr_t)argument};
    void *blocks[50] = {NULL};
    while (!atomic_load(&stop)) {
        for (int i = 0; i < 200; i++) {
            size_t index = random_below(&random, 50);
            free(blocks[index]);
            blocks[index] = opaque(malloc(random_below(&random, i % 20 ? 2000 : 300000)));
        }
    }
    for (size_t i = 0; i < 50; i++) {
        free(blocks[i]);
    }
    return NULL;
}

static uint64_t thread_time_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Options that can change do so while threads read them. */
static void set_options(size_t round) {
    assert_int_equal(prim_option_set("perturb", round % 3), 0);
    assert_int_equal(prim_option_set("top_pad", round % 4 * 65536), 0);
    assert_int_equal(prim_option_set("shards", round % 5), 0);
    assert_int_equal(prim_option_set_text("soft_limit", round % 2 ? "1M" : "auto"), 0);
    assert_int_equal(prim_option_set_text("hard_limit", round % 2 ? "64G" : "0"), 0);
}

static void test_snapshots_while_threads_allocate(void **state) {
    (void)state;
    static pthread_t threads[THREADS];
    struct prim_stats stats;
    size_t rounds = scaled(30);
    uint64_t time = 0;
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    }
    for (size_t i = 0; i < rounds; i++) {
        size_t total = 0;
        uint64_t begin = thread_time_us();
        prim_stats_get(&stats, sizeof stats);
        time += thread_time_us() - begin;
        expect_balance(&stats);
        assert_int_equal(prim_stats_write(PRIM_STATS_JSON, count_pieces, &total), 0);
        set_options(i);
    }
    set_options(0);
    atomic_store(&stop, true);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("a snapshot with %d threads: %llu us of processor time\n", THREADS,
           (unsigned long long)(time / rounds));
    prim_stats_get(&stats, sizeof stats);
    expect_balance(&stats);
    assert_true(stats.live_bytes < 1 << 20); /* what threads held is free again */
    assert_true(stats.threads >= 1 && stats.threads < THREADS);
}

static char lent[1 << 20];

static void *lend(void *argument) {
    (void)argument;
    while (!atomic_load(&stop)) {
        prim_heap_t *heap = prim_heap_new_in(lent, sizeof lent);
        CHECK(heap, "no heap in memory of ours");
        free(prim_heap_malloc(heap, 100));
        prim_heap_destroy(heap);
    }
    return NULL;
}

/* Whoever looks may meet a heap that is just being made. */
static void test_snapshots_while_heaps_begin(void **state) {
    (void)state;
    pthread_t thread;
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, lend, NULL), 0);
    for (size_t i = 0; i < scaled(300); i++) {
        size_t total = 0;
        assert_int_equal(prim_stats_write(PRIM_STATS_JSON, count_pieces, &total), 0);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

int main(void) {
    expect_allocator();
    watchdog_start(200, "api/test_statistics");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_counts),
        cmocka_unit_test(test_heaps),
        cmocka_unit_test(test_sizes_of_the_struct),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_snapshots_while_threads_allocate),
        cmocka_unit_test(test_snapshots_while_heaps_begin),
    };
    return cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
}
