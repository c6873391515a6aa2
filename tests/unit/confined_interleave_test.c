/* A thread confines the process while another asks the kernel for what a filter may forbid. The
 * library asks by kernel_call, which this program defines: so a test acts in just that moment. */
#include <pthread.h>
#include <unistd.h>

#include "objects/maintenance.h"
#include "os/confined.h"
#include "os/kernel.h"
#include "os/memory.h"
#include "os/output_file.h"
#include "os/text_file.h"
#include "os/usage.h"
#include "unit/kernel_words.h"
#include "unit/unit.h"

enum { NONE = -1, PAUSE_US = 30000 };

static long at_call = NONE; /* at which the other thread begins */
static pthread_t other;
static _Atomic bool has_confined;

static void *confine_all(void *unused) {
    maintenance_confine();
    store_relaxed(&has_confined, true);
    return unused;
}

/* It has begun, and would be done if it did not wait. */
static void have_another_confine(void) {
    CHECK(pthread_create(&other, NULL, confine_all, NULL) == 0, "no thread");
    while (!is_confined()) {
        usleep(1000);
    }
    usleep(PAUSE_US);
    CHECK(!load_relaxed(&has_confined), "a filter would kill who asks");
}

long kernel_call(long number, ...) {
    long words[6];
    TAKE_KERNEL_WORDS(words, number);
    if (number == at_call) {
        at_call = NONE;
        have_another_confine();
    }
    return syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

static void ask_for_pages(void) {
    static char page[1 << 16] __attribute__((aligned(1 << 16)));
    memory_resident(page, sizeof page);
}

static void read_a_file(void) {
    uint64_t number;
    text_file_number("/proc/sys/vm/max_map_count", &number);
}

static void append_to_a_file(void) {
    output_file_append("/dev/null", "", 0);
}

static void ask_for_usage(void) {
    usage_now();
}

static void ask_while_confined(long call, void (*ask)(void)) {
    at_call = call;
    ask();
    CHECK(at_call == NONE, "it was not asked");
    CHECK(pthread_join(other, NULL) == 0, "no thread");
    CHECK(load_relaxed(&has_confined), "not confined");
    at_call = call;
    ask();
    CHECK(at_call == call, "it was asked again");
}

static void confine_at_pages(void) {
    ask_while_confined(SYS_mincore, ask_for_pages);
}

static void confine_at_opening(void) {
    ask_while_confined(SYS_openat, read_a_file);
}

static void confine_at_closing(void) {
    ask_while_confined(SYS_close, read_a_file);
}

static void confine_at_appending(void) {
    ask_while_confined(SYS_lseek, append_to_a_file);
}

static void confine_at_usage(void) {
    ask_while_confined(SYS_getrusage, ask_for_usage);
}

/* Each in a child, because nobody takes it back. */
static void test_who_asks_is_waited_for(void **state) {
    (void)state;
    assert_int_equal(unit_signal_of(confine_at_pages), 0);
    assert_int_equal(unit_signal_of(confine_at_opening), 0);
    assert_int_equal(unit_signal_of(confine_at_closing), 0);
    assert_int_equal(unit_signal_of(confine_at_appending), 0);
    assert_int_equal(unit_signal_of(confine_at_usage), 0);
}

static void fork_while_asking(void) {
    CHECK(confined_may_ask(), "confined already");
    maintenance_fork_child();
    CHECK(!confined_is_asking(), "threads of the parent are waited for");
}

static void test_a_child_waits_for_nobody(void **state) {
    (void)state;
    assert_int_equal(unit_signal_of(fork_while_asking), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_asks_is_waited_for),
        cmocka_unit_test(test_a_child_waits_for_nobody),
    };
    return cmocka_run_group_tests_name("confined_interleave", tests, NULL, NULL);
}
