/* A process with PRIMALLOC_HARD_LIMIT: what would go beyond gives NULL and ENOMEM, what is there
 * stays intact, and memory that was freed can be had again. */
#include "support/support.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/names.h"

enum { MIB = 1 << 20, THREADS = 4, LIMIT_MIB = 64 }; /* the limit is in flavours.cmake */

struct node {
    struct node *next;
    size_t size;
};

static const size_t sizes[] = {5 * MIB, 300000, 40000, 3000, 64};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static size_t allocate_until_failure(struct node **head, size_t size) {
    size_t total = 0;
    for (;;) {
        errno = 0;
        struct node *node = opaque(malloc(size));
        if (node == NULL) {
            CHECK(errno == ENOMEM, "errno is %d", errno);
            return total;
        }
        fill_pattern(node + 1, size - sizeof *node, size);
        node->size = size;
        node->next = *head;
        *head = node;
        total += size;
        CHECK(total <= (size_t)LIMIT_MIB * MIB, "beyond the limit");
    }
}

static void check_and_free(struct node **head, size_t keep_every) {
    struct node *kept = NULL;
    for (size_t i = 1; *head != NULL; i++) {
        struct node *node = *head;
        size_t payload = node->size - sizeof *node;
        CHECK(check_pattern(node + 1, payload, node->size) == payload, "a block has changed");
        *head = node->next;
        if (keep_every && i % keep_every == 0) {
            node->next = kept;
            kept = node;
        } else {
            free(node);
        }
    }
    *head = kept;
}

static void test_exhaustion_and_recovery(void **state) {
    (void)state;
    size_t base = resident_bytes();
    for (size_t i = 0; i < 2 * SIZES; i++) {
        struct node *head = NULL;
        size_t total = allocate_until_failure(&head, sizes[i % SIZES]);
        assert_true(total > (size_t)LIMIT_MIB * MIB * 3 / 4);
        for (size_t j = i % SIZES + 1; j < SIZES; j++) { /* smaller ones may still find room */
            allocate_until_failure(&head, sizes[j]);
        }
        assert_true(resident_bytes() < base + (size_t)(LIMIT_MIB + 1) * MIB);
        check_and_free(&head, 0);
    }
}

/* With everything full, holes are enough for one more of their size, and for other sizes, too. */
static void test_holes_are_used(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        struct node *head = NULL;
        size_t total = allocate_until_failure(&head, sizes[i]);
        check_and_free(&head, 8); /* one of eight stays */
        size_t again = allocate_until_failure(&head, sizes[(i + 1) % SIZES]);
        /* A slab with one block left cannot go back; only large blocks leave whole pages. */
        assert_true(sizes[i] < 100000 || again > total / 2);
        check_and_free(&head, 0);
    }
}

static void test_failed_calls_change_nothing(void **state) {
    (void)state;
    const size_t size = 10 * MIB;
    unsigned char *block = opaque(malloc(size));
    assert_non_null(block);
    fill_pattern(block, size, 3);
    errno = 0;
    assert_null(opaque(realloc(block, (size_t)LIMIT_MIB * MIB)));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(opaque(calloc(LIMIT_MIB, MIB)));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(opaque(aligned_alloc(4096, (size_t)LIMIT_MIB * MIB)));
    assert_int_equal(errno, ENOMEM);
    void *untouched = block;
    assert_int_equal(posix_memalign(&untouched, 64, (size_t)LIMIT_MIB * MIB), ENOMEM);
    assert_ptr_equal(untouched, block);
    assert_int_equal(check_pattern(block, size, 3), size);
    block = opaque(realloc(block, 2 * size)); /* what fits goes on */
    assert_non_null(block);
    assert_int_equal(check_pattern(block, size, 3), size);
    free(block);
}

/* There is no room for another block, but the old one is room enough. */
static void test_a_block_shrinks_where_all_is_full(void **state) {
    (void)state;
    unsigned char *block = opaque(malloc(30000));
    fill_pattern(block, 30000, 3);
    struct node *head = NULL;
    for (size_t i = 0; i < SIZES; i++) {
        allocate_until_failure(&head, sizes[i]);
    }
    block = opaque(realloc(block, 700));
    assert_non_null(block);
    assert_int_equal(check_pattern(block, 700, 3), 700);
    free(block);
    check_and_free(&head, 0);
}

static void *exhaust(void *argument) {
    (void)argument;
    for (size_t i = 0; i < 3 * SIZES; i++) {
        struct node *head = NULL;
        allocate_until_failure(&head, sizes[i % SIZES]);
        check_and_free(&head, 0);
    }
    return NULL;
}

static void test_threads_share_the_limit(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    size_t base = resident_bytes();
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, exhaust, NULL), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_true(resident_bytes() < base + (size_t)(LIMIT_MIB + 4) * MIB);
    struct node *head = NULL;
    assert_true(allocate_until_failure(&head, 40000) > (size_t)LIMIT_MIB * MIB / 2);
    check_and_free(&head, 0);
}

/* Descriptors of the address space that they would take pass the limit. */
static void test_great_alignments_change_nothing(void **state) {
    (void)state;
    for (size_t alignment = MIB; alignment != 0; alignment *= 2) {
        errno = 0;
        void *block = opaque(aligned_alloc(alignment, 1));
        CHECK(block != NULL || errno == ENOMEM, "errno is %d", errno);
        free(block);
        block = opaque(malloc(MIB));
        CHECK(block != NULL, "nothing is left after an alignment of %zu", alignment);
        free(block);
    }
}

static void test_fork_at_the_limit(void **state) {
    (void)state;
    struct node *head = NULL;
    allocate_until_failure(&head, 3000);
    pid_t child = fork();
    if (child == 0) {
        struct node *more = NULL;
        allocate_until_failure(&more, 64);
        check_and_free(&head, 0);
        bool is_there = opaque(malloc(20 * MIB)) != NULL;
        _exit(is_there ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_and_free(&head, 0);
}

int main(void) {
    expect_allocator();
    watchdog_start(60, "api/test_hard_limit");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exhaustion_and_recovery),
        cmocka_unit_test(test_holes_are_used),
        cmocka_unit_test(test_failed_calls_change_nothing),
        cmocka_unit_test(test_a_block_shrinks_where_all_is_full),
        cmocka_unit_test(test_threads_share_the_limit),
        cmocka_unit_test(test_fork_at_the_limit),
        cmocka_unit_test(test_great_alignments_change_nothing),
    };
    return cmocka_run_group_tests_name("hard limit", tests, NULL, NULL);
}
