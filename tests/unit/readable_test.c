#include "os/readable.h"

#include <sys/mman.h>

#include "unit/unit.h"

enum { PAGE = 65536 }; /* of any machine */

static void tells_what_can_be_read(void **state) {
    (void)state;
    int here;
    char *memory = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + PAGE, PAGE, PROT_NONE);
    errno = ERRNO_MARK;
    assert_true(readable_page((uintptr_t)&here));
    assert_true(readable_page((uintptr_t) "text"));
    assert_true(readable_page((uintptr_t)memory + PAGE - 1));
    assert_false(readable_page((uintptr_t)memory + PAGE));
    assert_false(readable_page(0));
    assert_false(readable_page(8));
    assert_false(readable_page(UINTPTR_MAX));
    assert_false(readable_page((uintptr_t)1 << 62));
    assert_int_equal(errno, ERRNO_MARK);
    munmap(memory, 2 * PAGE);
    assert_false(readable_page((uintptr_t)memory));
}

int main(void) {
    expect_allocator();
    const struct CMUnitTest tests[] = {cmocka_unit_test(tells_what_can_be_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
