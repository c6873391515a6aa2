/* A process whose address space or data is limited (T17): the failure is NULL and ENOMEM, what is
 * there stays intact, and memory that was freed can be had again. */
#include "support/support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "support/names.h"

static const size_t ROOM = (size_t)40 << 20;

struct node {
    struct node *next;
    size_t size;
};

/* RLIMIT_AS counts all address space, RLIMIT_DATA what is private and writable. */
static int resource = RLIMIT_AS;

static size_t data_bytes(void) {
    char line[128];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmData: %zu", &kilobytes) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kilobytes << 10;
}

static void set_limit(size_t room) {
    struct rlimit limit;
    size_t used = resource == RLIMIT_AS ? mapped_bytes() : data_bytes();
    assert_int_equal(getrlimit(resource, &limit), 0);
    limit.rlim_cur = used + room;
    assert_int_equal(setrlimit(resource, &limit), 0);
}

/* Whether the kernel keeps to the limit at all: emulators do not. */
static bool is_limited(void) {
    set_limit(0);
    void *pages = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) {
        munmap(pages, ROOM);
    }
    return pages == MAP_FAILED;
}

/* Address space that the allocator only reserves and gives up at need does not count as in use, so
 * the need is made first: the room is what is there beyond that. */
static void limit_address_space(size_t room) {
    set_limit(0);
    free(opaque(malloc(ROOM / 8)));
    set_limit(room);
}

static void lift_limit(void) {
    struct rlimit limit;
    assert_int_equal(getrlimit(resource, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(resource, &limit), 0);
}

/* Allocates until it fails; returns the number of bytes got. */
static size_t allocate_until_failure(struct node **head, size_t size) {
    size_t total = 0;
    for (;;) {
        errno = 0;
        struct node *node = opaque(malloc(size));
        if (node == NULL) {
            assert_int_equal(errno, ENOMEM);
            return total;
        }
        fill_pattern(node + 1, size - sizeof *node, size);
        node->size = size;
        node->next = *head;
        *head = node;
        total += size;
    }
}

static void check_and_free_all(struct node *head) {
    while (head != NULL) {
        struct node *next = head->next;
        size_t payload = head->size - sizeof *head;
        assert_int_equal(check_pattern(head + 1, payload, head->size), payload);
        free(head);
        head = next;
    }
}

static void test_t17_exhaustion_and_recovery(void **state) {
    (void)state;
    const size_t sizes[] = {5 << 20, 300000, 40000, 3000, 64};
    limit_address_space(ROOM);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct node *head = NULL;
        size_t first = allocate_until_failure(&head, sizes[i]);
        /* With this size exhausted, the smaller ones may still find room; all must end in NULL. */
        for (size_t j = i + 1; j < sizeof sizes / sizeof sizes[0]; j++) {
            allocate_until_failure(&head, sizes[j]);
        }
        errno = 0;
        assert_null(opaque(realloc(NULL, ROOM)));
        assert_int_equal(errno, ENOMEM);
        check_and_free_all(head);
        malloc_trim(0);
        head = NULL;
        size_t second = allocate_until_failure(&head, sizes[i]);
        check_and_free_all(head);
        malloc_trim(0);
        assert_true(first > ROOM / 3);
        assert_true(second > first / 2);
    }
    lift_limit();
    void *block = opaque(malloc(2 * ROOM));
    assert_non_null(block);
    free(block);
}

static void test_exhaustion_of_data(void **state) {
    resource = RLIMIT_DATA;
    bool can_be_tested = is_limited();
    lift_limit();
    if (can_be_tested) {
        test_t17_exhaustion_and_recovery(state);
    }
    resource = RLIMIT_AS;
    if (!can_be_tested) {
        skip();
    }
}

static void test_failed_growth_keeps_the_block(void **state) {
    (void)state;
    size_t size = 10 << 20;
    unsigned char *block = opaque(malloc(size));
    assert_non_null(block);
    fill_pattern(block, size, 3);
    limit_address_space(ROOM / 4);
    errno = 0;
    assert_null(opaque(realloc(block, 5 * ROOM)));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(check_pattern(block, size, 3), size);
    lift_limit();
    free(block);
}

int main(void) {
    expect_allocator();
    watchdog_start(100, "api/test_limits");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t17_exhaustion_and_recovery),
        cmocka_unit_test(test_exhaustion_of_data),
        cmocka_unit_test(test_failed_growth_keeps_the_block),
    };
    return cmocka_run_group_tests_name("limited address space", tests, NULL, NULL);
}
