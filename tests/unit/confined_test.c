/* What a confined process asks of the kernel: in children under a filter that kills whoever calls
 * anything but what glibc's malloc calls. */
#include "os/confined.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/cgroup.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/output_file.h"
#include "os/process.h"
#include "os/text_file.h"
#include "os/usage.h"
#include "unit/unit.h"

#include "traps/fixtures/confine.h"

static void filter(void) {
    static const int calls[] = {SYS_mmap,    SYS_munmap, SYS_mremap,    SYS_mprotect,
                                SYS_madvise, SYS_futex,  SYS_exit_group};
    confine(calls, ARRAY_LENGTH(calls), SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS, 0);
}

static void ask_everything(void) {
    static char page[1 << 16] __attribute__((aligned(1 << 16)));
    struct text_file file;
    memory_resident(page, sizeof page);
    memory_is_limited(SIZE_MAX);
    memory_name(page, sizeof page, "nobody");
    text_file_open_unasked(&file, "/proc/self/status");
    cgroup_memory_limits("");
    machine_processor_count();
    machine_processor();
    machine_clock_ms();
    machine_thread_time_us();
    usage_now();
    output_file_append("/dev/null", "", 0);
    _exit(0);
}

static void ask_confined(void) {
    process_note_home();
    confined_begin();
    filter();
    process_id();
    ask_everything();
}

static void ask_unconfined(void) {
    filter();
    ask_everything();
}

static int status_of(void (*body)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        body();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_no_other_call(void **state) {
    (void)state;
    assert_int_equal(status_of(ask_confined), 0);
}

static void test_the_filter_kills(void **state) {
    (void)state;
    assert_int_equal(WTERMSIG(status_of(ask_unconfined)), SIGSYS);
}

static void test_answers(void **state) {
    (void)state;
    size_t size = memory_page_size();
    char *page = memory_map(size);
    *page = 1;
    assert_int_equal(memory_resident(page, size), size);
    confined_begin();
    assert_true(is_confined());
    assert_int_equal(memory_resident(page, size), 0);
    assert_int_equal(usage_now().minor_faults, 0);
    assert_true(machine_processor_count() > 1);
    assert_true(machine_clock_ms() > 0);
    memory_unmap(page, size);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_filter_kills),
        cmocka_unit_test(test_no_other_call),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests_name("confined", tests, NULL, NULL);
}
