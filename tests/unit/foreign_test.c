#include "objects/foreign.h"

#include "objects/allocate.h"
#include "os/memory.h"
#include "unit/unit.h"

enum { THREADS = 4, ROUNDS = 5000 };

/* Whoever touched it would die. */
static void *untouchable(void) {
    void *bytes = memory_map(memory_page_size());
    assert_non_null(bytes);
    memory_unmap(bytes, memory_page_size());
    return bytes;
}

static void test_release(void **state) {
    (void)state;
    uint64_t before = foreign_count();
    errno = ERRNO_MARK;
    foreign_release(untouchable());
    assert_int_equal(errno, ERRNO_MARK);
    assert_int_equal(foreign_count(), before + 1);
}

static void test_reallocate(void **state) {
    (void)state;
    uint64_t before = foreign_count();
    errno = 0;
    assert_null(foreign_reallocate(untouchable(), 10));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(foreign_count(), before + 1);
}

static void test_pointers_from_everywhere(void **state) {
    static char variable[64];
    char *large = allocate((size_t)1 << 20);
    char *mapped = memory_map(memory_page_size());
    uint64_t before = foreign_count();
    errno = ERRNO_MARK;
    release(variable + 8);
    release(&state);
    release(untouchable());
    release(mapped);
    release(large + 64 * 1024); /* the inside of a block */
    release((void *)UINTPTR_MAX);
    release((void *)8);
    assert_int_equal(foreign_count(), before + 7);
    release(NULL);
    assert_int_equal(foreign_count(), before + 7);
    assert_int_equal(errno, ERRNO_MARK);
    large[64 * 1024] = 1;
    release(large);
    assert_int_equal(foreign_count(), before + 7);
    release(large); /* it is no block any more */
    assert_int_equal(foreign_count(), before + 8);
    memory_unmap(mapped, memory_page_size());
}

/* Memory that looks like a block of libc's but for one thing, its place first of all. */
static void test_lookalikes(void **state) {
    (void)state;
    static const size_t heads[] = {0x21, 0x31, 0x25, 0x1002, 0xff2, 0x2012, 0x7ffffff2, 0};
    static _Alignas(4096) size_t words[1024];
    uint64_t before = foreign_count();
    for (size_t i = 0; i < ARRAY_LENGTH(heads); i++) {
        for (size_t j = 1; j < ARRAY_LENGTH(words); j += 2) {
            words[j] = heads[i];
        }
        release(&words[64]);
        release(&words[6]); /* whose page begins elsewhere */
        assert_null(reallocate(&words[64], 10));
        assert_int_equal(usable_size(&words[64]), 0);
    }
    assert_int_equal(foreign_count(), before + 3 * ARRAY_LENGTH(heads));
}

static void meet_many(unsigned number) {
    for (int i = 0; i < ROUNDS; i++) {
        release(&number);
    }
}

static void test_threads(void **state) {
    (void)state;
    uint64_t before = foreign_count();
    unit_run_threads(THREADS, meet_many);
    assert_int_equal(foreign_count(), before + THREADS * ROUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_reallocate),
        cmocka_unit_test(test_pointers_from_everywhere),
        cmocka_unit_test(test_lookalikes),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("foreign", tests, NULL, NULL);
}
