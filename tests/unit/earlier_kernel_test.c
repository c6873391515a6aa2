/* Linux 4.17 and 4.18, whose MAP_FIXED_NOREPLACE looks only at the mapping that the range begins
 * in, and replaces what lies behind; neither knows MADV_COLD. The library asks by kernel_call,
 * which this program defines. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/kernel.h"
#include "os/memory.h"
#include "unit/kernel_words.h"
#include "unit/unit.h"

enum { COLD = 20, NOREPLACE = 0x100000 };

static bool is_unmapped(long address) {
    unsigned char resident;
    return mincore((void *)address, 1, &resident) != 0 && errno == ENOMEM;
}

static long refuse(int error) {
    errno = error;
    return -1;
}

static long map_as_before(const long *words) {
    long flags = words[3];
    if (flags & NOREPLACE) {
        if (!is_unmapped(words[0])) {
            return refuse(EEXIST);
        }
        flags = (flags & ~(long)NOREPLACE) | MAP_FIXED;
    }
    return (long)mmap((void *)words[0], (size_t)words[1], (int)words[2], (int)flags, (int)words[4],
                      (off_t)words[5]);
}

long kernel_call(long number, ...) {
    long words[6];
    TAKE_KERNEL_WORDS(words, number);
    if (number == SYS_madvise && words[2] == COLD) {
        return refuse(EINVAL);
    }
    if (number == SYS_mmap) {
        return map_as_before(MMAP_WORDS(words));
    }
    return syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* Maps at what is free for gap pages of the size given, all of the rest being a neighbour's. */
static void check_neighbour(size_t gap, size_t size) {
    size_t page = memory_page_size();
    char *region = memory_map(8 * page);
    assert_non_null(region);
    memset(region, 'n', 8 * page);
    memory_unmap(region + page, gap * page);
    errno = ERRNO_MARK;
    assert_null(memory_map_at(region + page, size * page));
    assert_int_equal(errno, ERRNO_MARK);
    assert_true(unit_is_filled(region, page, 'n'));
    assert_true(unit_is_filled(region + (1 + gap) * page, (7 - gap) * page, 'n'));
    assert_ptr_equal(memory_map_at(region + page, gap * page), region + page);
    memory_unmap(region, 8 * page);
}

static void test_neighbours_stay(void **state) {
    (void)state;
    check_neighbour(1, 2);
    check_neighbour(2, 3);
    check_neighbour(3, 6);
    check_neighbour(2, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_neighbours_stay)};
    return cmocka_run_group_tests_name("earlier_kernel", tests, NULL, NULL);
}
