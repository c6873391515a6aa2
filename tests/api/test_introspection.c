/* mallinfo, mallinfo2, malloc_info, malloc_stats, mallopt and malloc_trim (T35): programs call them
 * and act on the answer, so the numbers are true and the calls succeed where they can do no harm.
 * */
#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/names.h"

enum { COUNT = 32 };
static const size_t MIB = (size_t)1 << 20;

static void allocate_all(void **blocks, size_t size) {
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = opaque(malloc(size));
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, size);
    }
}

static void free_all(void **blocks) {
    for (size_t i = 0; i < COUNT; i++) {
        free(blocks[i]);
    }
}

static size_t bytes_in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void test_t35_mallinfo2_follows_use(void **state) {
    (void)state;
    void *blocks[COUNT];
    const size_t sizes[] = {1000, 100000, 2 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t before = bytes_in_use();
        allocate_all(blocks, sizes[i]);
        size_t full = bytes_in_use();
        free_all(blocks);
        /* What a thread's cache holds may count either way. */
        assert_true(full >= before);
        if (sizes[i] * COUNT >= 64 * MIB) {
            assert_true(full - before >= sizes[i] * COUNT * 7 / 8);
            assert_true(full - before <= sizes[i] * COUNT * 5 / 4);
            assert_true(bytes_in_use() < before + sizes[i] * COUNT / 4);
        }
    }
}

static void test_mallinfo2_parts_add_up(void **state) {
    (void)state;
    void *block = opaque(malloc(100000));
    struct mallinfo2 info = mallinfo2();
    free(block);
    assert_true(info.arena + info.hblkhd > 0);
    assert_true(info.uordblks + info.fordblks <= info.arena + info.hblkhd);
    assert_true(info.arena + info.hblkhd <= mapped_bytes());
}

static void test_mallinfo_is_mallinfo2_cut_to_int(void **state) {
    (void)state;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
    struct mallinfo2 wide = mallinfo2();
    assert_int_equal(narrow.uordblks, (int)wide.uordblks);
    assert_int_equal(narrow.arena, (int)wide.arena);
    assert_int_equal(narrow.hblkhd, (int)wide.hblkhd);
}

/* What this process has asked the kernel to read, by its own books. */
static unsigned long read_calls(void) {
    char text[512] = {0};
    int file = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        skip(); /* a kernel that keeps none */
    }
    assert_true(read(file, text, sizeof text - 1) > 0);
    close(file);
    const char *line = strstr(text, "syscr: ");
    assert_non_null(line);
    return strtoul(line + strlen("syscr: "), NULL, 10);
}

/* Services call it now and then, and glibc's asks nobody. Reading files of /proc takes four times
 * as long, and parents of children that read theirs wait in the kernel, seconds on a busy one. */
static void test_mallinfo2_reads_no_file(void **state) {
    (void)state;
    enum { CALLS = 20 };
    unsigned long before = read_calls();
    for (int i = 0; i < CALLS; i++) {
        mallinfo2();
    }
    assert_true(read_calls() - before < CALLS);
}

/* No look at pages: of a large heap in pieces that took milliseconds, with the heap locked. */
static void test_mallinfo2_asks_the_kernel_for_no_pages(void **state) {
    (void)state;
    struct sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_mincore},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    pid_t child = fork();
    if (child == 0) {
        syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* unseen by the library */
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
        mallinfo2();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static size_t read_back(FILE *file, char *text, size_t capacity) {
    fflush(file);
    rewind(file);
    size_t length = fread(text, 1, capacity - 1, file);
    text[length] = '\0';
    return length;
}

static void test_malloc_info_writes_xml(void **state) {
    (void)state;
    static char text[1 << 20];
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(malloc_info(0, file), 0);
    assert_true(read_back(file, text, sizeof text) > 20);
    assert_non_null(strstr(text, "<malloc version="));
    assert_non_null(strstr(text, "</malloc>"));
    fclose(file);
}

static void test_malloc_info_refuses_options(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_not_equal(malloc_info(1, file), 0);
    assert_int_equal(ftell(file), 0);
    fclose(file);
}

/* T49 in part: it writes to standard error and returns. */
static void test_malloc_stats_prints_to_standard_error(void **state) {
    (void)state;
    static char text[1 << 16];
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    dup2(fileno(file), STDERR_FILENO);
    malloc_stats();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_true(read_back(file, text, sizeof text) > 20);
    fclose(file);
}

static void test_t35_mallopt_accepts_what_glibc_documents(void **state) {
    (void)state;
    assert_int_equal(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
    assert_int_equal(mallopt(M_TRIM_THRESHOLD, 1 << 20), 1);
    assert_int_equal(mallopt(M_TOP_PAD, 1 << 16), 1);
    assert_int_equal(mallopt(M_MMAP_MAX, 1000), 1);
    assert_int_equal(mallopt(M_ARENA_MAX, 2), 1);
    assert_int_equal(mallopt(M_MXFAST, 64), 1);
    void *block = opaque(malloc(2 * MIB));
    assert_non_null(block);
    free(block);
}

/* Makes many small objects, frees them and expects malloc_trim to give nearly all pages back. */
static void trim_after(size_t size, size_t total) {
    malloc_trim(0);
    size_t before = resident_bytes();
    size_t count = total / size;
    void **head = NULL;
    for (size_t i = 0; i < count; i++) {
        void **block = opaque(malloc(size));
        assert_non_null(block);
        memset(block, 1, size);
        *block = head;
        head = block;
    }
    assert_true(resident_bytes() >= before + total * 3 / 4);
    while (head != NULL) {
        void **next = *head;
        free(head);
        head = next;
    }
    int released = malloc_trim(0);
    assert_true(released == 0 || released == 1);
    assert_true(resident_bytes() < before + total / 4);
}

static void test_t35_malloc_trim_gives_memory_back(void **state) {
    (void)state;
    if (has_shadow_memory()) {
        skip();
    }
    trim_after(24, 48 * MIB);
    trim_after(1000, 96 * MIB);
    trim_after(20000, 96 * MIB);
    trim_after(200000, 96 * MIB);
    trim_after(3 * MIB, 96 * MIB);
}

static void test_malloc_trim_with_nothing_to_do(void **state) {
    (void)state;
    for (int i = 0; i < 100; i++) {
        int released = malloc_trim((size_t)i << 16);
        assert_true(released == 0 || released == 1);
    }
}

int main(void) {
    expect_allocator();
    watchdog_start(60, "api/test_introspection");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t35_mallinfo2_follows_use),
        cmocka_unit_test(test_mallinfo2_parts_add_up),
        cmocka_unit_test(test_mallinfo_is_mallinfo2_cut_to_int),
        cmocka_unit_test(test_mallinfo2_reads_no_file),
        cmocka_unit_test(test_mallinfo2_asks_the_kernel_for_no_pages),
        cmocka_unit_test(test_malloc_info_writes_xml),
        cmocka_unit_test(test_malloc_info_refuses_options),
        cmocka_unit_test(test_malloc_stats_prints_to_standard_error),
        cmocka_unit_test(test_t35_malloc_trim_gives_memory_back),
        cmocka_unit_test(test_malloc_trim_with_nothing_to_do),
        cmocka_unit_test(test_t35_mallopt_accepts_what_glibc_documents),
    };
    return cmocka_run_group_tests_name("introspection and tuning", tests, NULL, NULL);
}
