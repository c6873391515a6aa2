#include "os/memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "traps/fixtures/confine.h"
#include "unit/unit.h"

static char *map_filled(size_t size, char value) {
    char *bytes = memory_map(size);
    assert_non_null(bytes);
    memset(bytes, value, size);
    return bytes;
}

static void test_page_size(void **state) {
    (void)state;
    assert_int_equal(memory_page_size(), sysconf(_SC_PAGESIZE));
    assert_int_equal(memory_page_size(), memory_page_size());
}

static void test_map(void **state) {
    (void)state;
    size_t size = 16 * memory_page_size();
    char *bytes = memory_map(size);
    assert_non_null(bytes);
    assert_int_equal((uintptr_t)bytes % memory_page_size(), 0);
    assert_true(unit_is_filled(bytes, size, 0));
    memset(bytes, 'x', size);
    assert_true(unit_is_filled(bytes, size, 'x'));
    memory_unmap(bytes, size);
    unsigned char resident;
    assert_int_equal(mincore(bytes, memory_page_size(), &resident), -1);
}

static void test_map_fails_quietly(void **state) {
    (void)state;
    errno = ERRNO_MARK;
    assert_null(memory_map((size_t)1 << 62));
    assert_null(memory_reserve((size_t)1 << 62));
    assert_int_equal(errno, ERRNO_MARK);
}

static void test_map_at(void **state) {
    (void)state;
    size_t page = memory_page_size();
    char *region = map_filled(8 * page, 'r');
    errno = ERRNO_MARK;
    assert_null(memory_map_at(region, page));
    assert_null(memory_map_at(region + 7 * page, 4 * page));
    assert_true(unit_is_filled(region, 8 * page, 'r'));
    memory_unmap(region + 2 * page, 4 * page);
    assert_null(memory_map_at(region + page, 2 * page));
    assert_null(memory_map_at(region + 4 * page, 3 * page));
    assert_true(unit_is_filled(region, 2 * page, 'r'));
    assert_true(unit_is_filled(region + 6 * page, 2 * page, 'r'));
    assert_ptr_equal(memory_map_at(region + 2 * page, 4 * page), region + 2 * page);
    assert_int_equal(errno, ERRNO_MARK);
    assert_true(unit_is_filled(region + 2 * page, 4 * page, 0));
    memset(region, 'z', 8 * page);
    memory_unmap(region, 8 * page);
}

static void test_purge(void **state) {
    (void)state;
    size_t page = memory_page_size();
    char *bytes = map_filled(8 * page, 'p');
    assert_int_equal(unit_resident(bytes, 8 * page), 8 * page);
    assert_true(memory_purge(bytes + 2 * page, 4 * page));
    assert_int_equal(unit_resident(bytes, 8 * page), 4 * page);
    assert_true(unit_is_filled(bytes, 2 * page, 'p'));
    assert_true(unit_is_filled(bytes + 2 * page, 4 * page, 0));
    assert_true(unit_is_filled(bytes + 6 * page, 2 * page, 'p'));
    memory_unmap(bytes, 8 * page);
}

static void test_resident(void **state) {
    (void)state;
    size_t page = memory_page_size();
    size_t size = 1500 * page; /* more than is asked for at once */
    char *bytes = memory_map(size);
    assert_non_null(bytes);
    errno = ERRNO_MARK;
    assert_int_equal(memory_resident(bytes, size), 0);
    for (size_t i = 0; i < 1500; i += 3) {
        bytes[i * page] = 1;
    }
    if (!is_emulated()) {
        assert_int_equal(memory_resident(bytes, size), unit_resident(bytes, size));
        for (size_t step = 1; step < 1500; step *= 2) { /* fine ones, and coarse ones */
            assert_int_equal(memory_samples(bytes, size, step * page), 1499 / (3 * step) + 1);
        }
    }
    memset(bytes, 1, size);
    assert_int_equal(memory_resident(bytes, size), size);
    assert_int_equal(memory_resident(bytes + page, 5 * page), 5 * page);
    assert_int_equal(errno, ERRNO_MARK);
    memory_unmap(bytes, size);
}

static void test_purge_of_locked_pages(void **state) {
    (void)state;
    size_t page = memory_page_size();
    char *bytes = map_filled(page, 'l');
    if (is_emulated() || !unit_lock_pages(bytes, page)) {
        memory_unmap(bytes, page);
        skip(); /* this process may not lock pages */
    }
    errno = ERRNO_MARK;
    assert_false(memory_purge(bytes, page));
    assert_int_equal(errno, ERRNO_MARK);
    assert_true(unit_unlock_pages(bytes, page));
    assert_true(memory_purge(bytes, page));
    memory_unmap(bytes, page);
}

static void purge_first_where_all_is_locked(void) {
    size_t page = memory_page_size();
    if (syscall(SYS_mlockall, MCL_FUTURE) != 0) { /* sanitizers do nothing for mlockall */
        return;                                   /* this process may not lock pages */
    }
    char *bytes = map_filled(page, 'l');
    CHECK(!memory_purge(bytes, page), "locked pages went");
    CHECK(syscall(SYS_munlockall) == 0 && memory_purge(bytes, page), "pages stay that were locked");
    CHECK(unit_is_filled(bytes, page, 0), "not zero");
}

/* To be called before pages were given back: what is learnt from the first holds for all. */
static void test_first_purge_of_locked_pages(void **state) {
    (void)state;
    if (is_emulated()) {
        skip();
    }
    assert_int_equal(unit_signal_of(purge_first_where_all_is_locked), 0);
}

static void test_move(void **state) {
    (void)state;
    size_t size = 8 * memory_page_size();
    char *from = map_filled(size, 'f');
    char *to = map_filled(size, 't');
    errno = ERRNO_MARK;
    bool is_moved = memory_move(from, to, size);
    assert_int_equal(errno, ERRNO_MARK);
    if (is_moved) {
        assert_int_equal(load_relaxed(&memory_loses_source), is_emulated());
        assert_true(unit_is_filled(to, size, 'f'));
        assert_true(unit_is_filled(from, size, 0));
        memset(from, 'n', size);
        assert_true(unit_is_filled(to, size, 'f'));
    } else { /* a kernel before 5.7 */
        assert_true(unit_is_filled(from, size, 'f'));
        assert_true(unit_is_filled(to, size, 't'));
    }
    memory_unmap(from, size);
    memory_unmap(to, size);
    if (!is_moved) {
        skip();
    }
}

/* Beyond a limit that was lowered the kernel refuses, and has unmapped the target by then. */
static void test_refused_move(void **state) {
    (void)state;
    size_t size = 8 * memory_page_size();
    char *from = map_filled(size, 'f');
    char *to = map_filled(size, 't');
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    struct rlimit low = {mapped_bytes() / 2, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    bool is_moved = memory_move(from, to, size);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    if (!is_moved) {                                       /* qemu has limits of its own */
        assert_int_equal(memory_resident(to, size), size); /* looked at before it is touched */
        assert_true(unit_is_filled(from, size, 'f'));
        assert_true(unit_is_filled(to, size, 't'));
    }
    memory_unmap(from, size);
    memory_unmap(to, size);
}

/* A source of two mappings is refused before anything happens: kernels before 6.17 would unmap the
 * target first, later ones move what comes before a mapping that stays where it is. */
static void test_move_of_two_mappings(void **state) {
    (void)state;
    enum { MSEAL = 462 };
    size_t size = 8 * memory_page_size();
    char *from = map_filled(size, 'f');
    char *to = map_filled(size, 't');
    if (!memory_dump(from, size / 2, false) || is_emulated()) {
        skip(); /* an emulator passes no such advice on */
    }
    for (int round = 0; round < 2; round++) { /* the second mapping could be moved; it cannot be */
        assert_false(memory_move(from, to, size));
        assert_true(unit_is_filled(from, size, 'f'));
        assert_true(unit_is_filled(to, size, 't'));
        (void)syscall(MSEAL, from + size / 2, size / 2, 0); /* since 6.10 */
    }
    memory_unmap(from, size / 2);
    memory_unmap(to, size);
}

static void ask_where_the_question_is_refused(void) {
    static const int calls[] = {SYS_mremap};
    size_t page = memory_page_size();
    char *pages = map_filled(2 * page, 'p');
    CHECK(memory_is_one_mapping(pages, 2 * page), "one mapping");
    CHECK(memory_forbid(pages + page, page) && !memory_is_one_mapping(pages, 2 * page), "two");
    confine(calls, ARRAY_LENGTH(calls), SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW, BY_PRCTL);
    CHECK(!memory_is_one_mapping(pages, 2 * page), "nobody knows");
}

static void test_one_mapping_under_a_filter(void **state) {
    (void)state;
    if (is_emulated()) {
        skip();
    }
    assert_int_equal(unit_signal_of(ask_where_the_question_is_refused), 0);
}

static void ask_where_a_filter_does_not_tell(void) {
    static const int calls[] = {SYS_mincore};
    size_t page = memory_page_size();
    char *pages = map_filled(2 * page, 'p');
    confine(calls, ARRAY_LENGTH(calls), SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW, BY_PRCTL);
    errno = ERRNO_MARK;
    CHECK(memory_resident(pages, 2 * page) == 0 && load_relaxed(&memory_is_blind), "who told?");
    CHECK(memory_is_one_mapping(pages, 2 * page), "that is told by another call");
    CHECK(errno == ERRNO_MARK, "errno is %d", errno);
}

static void test_residency_under_a_filter(void **state) {
    (void)state;
    size_t page = memory_page_size();
    char *gone = map_filled(page, 'g');
    memory_unmap(gone, page);
    assert_int_equal(memory_resident(gone, page), 0); /* the kernel says so */
    assert_false(load_relaxed(&memory_is_blind));
    if (is_emulated()) {
        skip(); /* an emulator has no filters */
    }
    assert_int_equal(unit_signal_of(ask_where_a_filter_does_not_tell), 0);
}

static char *reservation;

static void write_to_reservation(void) {
    *(volatile char *)reservation = 1;
}

static void test_reserve_and_commit(void **state) {
    (void)state;
    size_t size = (size_t)8 << 30;
    size_t page = memory_page_size();
    reservation = memory_reserve(size);
    assert_non_null(reservation);
    assert_int_equal(reservation[0], 0);
    assert_int_equal(reservation[size - 1], 0);
    assert_int_equal(unit_signal_of(write_to_reservation), SIGSEGV);
    assert_true(memory_commit(reservation + page, 2 * page));
    memset(reservation + page, 'c', 2 * page);
    assert_int_equal(reservation[0], 0);
    assert_int_equal(reservation[3 * page], 0);
    assert_int_equal(unit_signal_of(write_to_reservation), SIGSEGV);
    memory_unmap(reservation, size);
    errno = ERRNO_MARK;
    assert_false(memory_commit(reservation, page));
    assert_int_equal(errno, ERRNO_MARK);
}

/* A wish: it must change nothing that a program can read, and never errno. */
static void test_hints(void **state) {
    (void)state;
    size_t size = (size_t)4 << 20;
    char *bytes = memory_map(size);
    assert_non_null(bytes);
    bytes[17] = 'h';
    errno = ERRNO_MARK;
    memory_advise_huge(bytes, size, true);
    memory_advise_huge((void *)(uintptr_t)memory_page_size(), size, true);
    memory_advise_huge(bytes + 1, size, true);
    assert_int_equal(errno, ERRNO_MARK);
    assert_int_equal(bytes[17], 'h');
    bytes[17] = 0;
    assert_true(unit_is_filled(bytes, size, 0));
    memory_unmap(bytes, size);
}

int main(void) {
    unit_touch_single_pages();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_size),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_fails_quietly),
        cmocka_unit_test(test_map_at),
        cmocka_unit_test(test_first_purge_of_locked_pages),
        cmocka_unit_test(test_purge),
        cmocka_unit_test(test_resident),
        cmocka_unit_test(test_purge_of_locked_pages),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_refused_move),
        cmocka_unit_test(test_move_of_two_mappings),
        cmocka_unit_test(test_one_mapping_under_a_filter),
        cmocka_unit_test(test_residency_under_a_filter),
        cmocka_unit_test(test_reserve_and_commit),
        cmocka_unit_test(test_hints),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
