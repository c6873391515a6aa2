/* thread.c - see thread.h. */
#include "os/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/bits.h"
#include "os/confined.h"
#include "os/futex.h"
#include "os/kernel.h"
#include "os/process.h"

/* Before glibc 2.34 in a library of its own, which a program without threads does not load. */
#pragma weak pthread_create
#pragma weak pthread_attr_setstacksize

/* Address space: only what is touched costs. Static TLS is taken from it, however large the
 * program's libraries make it; and where the program's own threads end while this one still runs,
 * libc runs the exit handlers on it, which may want more than 64 KiB. */
enum { STACK_SIZE = 256 << 10, STACK_SIZE_MAX = 8 << 20 };

/* The kernel's mask: one bit a signal, from 1 to 64. glibc's own two stay open: they bring a change
 * of the user to every thread. */
static const uint64_t all_signals = ~((uint64_t)1 << 31 | (uint64_t)1 << 32);

static void *run(void *argument) {
    void (*body)(void) = (void (*)(void))argument;
    body();
    return NULL;
}

static int create(void (*body)(void)) {
    pthread_t thread;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error) {
        return error;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = EINVAL;
    for (size_t size = STACK_SIZE; error == EINVAL && size <= STACK_SIZE_MAX; size *= 2) {
        error = pthread_attr_setstacksize(&attributes, size); /* EINVAL: below the system's least */
        if (!error) {
            error = pthread_create(&thread, &attributes, run, (void *)body);
        }
    }
    pthread_attr_destroy(&attributes);
    return error;
}

bool thread_start(void (*body)(void)) {
    if (!pthread_create || !pthread_attr_setstacksize) {
        return false;
    }
    int saved_errno = errno;
    uint64_t old_signals = 0;
    bool is_blocked = kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, &all_signals, &old_signals,
                                  sizeof old_signals) == 0;
    bool is_started = is_blocked && create(body) == 0;
    if (is_blocked) {
        kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, &old_signals, NULL, sizeof old_signals);
    }
    errno = saved_errno;
    return is_started;
}

void thread_name(const char *name) {
    kernel_call(SYS_prctl, PR_SET_NAME, name, 0, 0, 0);
}

void thread_name_get(char name[THREAD_NAME_SIZE]) {
    memset(name, 0, THREAD_NAME_SIZE);
    int saved_errno = errno;
    kernel_call(SYS_prctl, PR_GET_NAME, name, 0, 0, 0);
    errno = saved_errno;
}

int thread_number(void) {
    return (int)kernel_call(SYS_gettid);
}

bool thread_is_there(int number) {
    int saved_errno = errno;
    bool is_there = number && kernel_call(SYS_tgkill, process_number(), number, 0) == 0;
    errno = saved_errno;
    return is_there;
}

bool thread_is_only(void) {
    enum { LINKS = 3 }; /* of its own, of its parent, and of the one folder in it */
    if (!confined_may_ask()) {
        return false;
    }
    struct stat status;
    bool is_only = stat("/proc/self/task", &status) == 0 && status.st_nlink == LINKS;
    confined_asked();
    return is_only;
}

void thread_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t ms) {
    struct timespec duration = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    futex_call(word, FUTEX_WAIT, value, &duration);
}

void thread_wake(_Atomic uint32_t *word) {
    futex_call(word, FUTEX_WAKE, 1, NULL);
}
