/* process.c - see process.h. */
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/print.h"
#include "base/text.h"
#include "os/alone.h"
#include "os/confined.h"
#include "os/kernel.h"

static _Atomic(process_output *) output_function; /* (atomic: output) NULL: standard error */
static _Atomic(void *) output_context;            /* (atomic: hint) published with the function */

static unsigned home; /* (const but in a fork's child) the process's number; 0 before main */

char **process_environment(void) {
    return getauxval(AT_SECURE) ? NULL : environ;
}

void process_forget_variable(const char *name) {
    char **kept = environ;
    for (char **entry = environ; entry && *entry; entry++) {
        const char *behind = text_behind(*entry, name);
        if (!behind || *behind != '=') {
            *kept++ = *entry;
        }
    }
    if (kept) {
        *kept = NULL;
    }
}

static _Atomic bool error_output_is_closed; /* (atomic: hint) since the process started */

void process_note_error_output(void) {
    int saved_errno = errno;
    errno = 0; /* and stays so where the process is confined */
    kernel_ask(SYS_fcntl, STDERR_FILENO, F_GETFD);
    store_relaxed(&error_output_is_closed, errno == EBADF);
    errno = saved_errno;
}

bool process_is_stack(uintptr_t address) {
    enum { BELOW = 64 << 10, ABOVE = 8 << 20 };
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return address > here - BELOW && address < here + ABOVE;
}

void process_write_error(const char *text, size_t length) {
    if (load_relaxed(&error_output_is_closed)) {
        return;
    }
    int saved_errno = errno;
    long written = kernel_call(SYS_write, STDERR_FILENO, text, length); /* no cancellation point */
    (void)written; /* a closed standard error is the user's choice */
    errno = saved_errno;
}

PRIM_COLD void process_complain(const char *what, const char *rest) {
    char line[1200];
    struct print out = print_to(line, sizeof line);
    print_format(&out, "primalloc: %s%s\n", what, rest);
    process_write_error(line, out.length);
}

void process_set_output(process_output *output, void *context) {
    store_relaxed(&output_context, context);
    store_release(&output_function, output); /* order pair: output */
}

void process_write_output(const char *text, size_t length) {
    process_output *output = load_acquire(&output_function); /* order pair: output */
    if (output) {
        output(text, length, load_relaxed(&output_context));
    } else {
        process_write_error(text, length);
    }
}

int process_number(void) {
    return (int)kernel_call(SYS_getpid);
}

unsigned process_id(void) {
    return is_confined() && home ? home : (unsigned)process_number();
}

/* The process has the number of its first thread, which libc has kept from that thread's birth and
 * tells, without a system call, in what the kernel calls the thread's clock. */
static unsigned id_of_only_thread(void) {
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(unsigned)(clock >> 3) : home;
}

void process_note_home(void) {
    bool is_child = home != 0;
    if (!is_confined()) {
        home = (unsigned)process_number();
    } else if (is_child || process_is_alone()) {
        home = id_of_only_thread();
    }
}

bool process_has_home(void) {
    return home != 0;
}

bool process_is_home(void) {
    return home == 0 || home == (unsigned)process_number();
}

bool process_owns_memory(void) {
    enum { KCMP_VM = 1 };
    long answer =
        process_is_home() ? 1 : kernel_call(SYS_kcmp, process_number(), home, KCMP_VM, 0, 0);
    if (answer > 0 || (answer < 0 && errno == ESRCH)) { /* home has no number here */
        process_note_home();
    }
    return answer != 0;
}

/* exit() within exit() goes on behind the handler that called it, with the new status, in glibc;
 * elsewhere it may hang. A destructor that called it would take all others' turn: so glibc calls it
 * when they are through, as it does what is registered meanwhile, and by its own address, as ours
 * may be unmapped by then. Elsewhere what is buffered must be written here. */
void process_exit_again(int status) {
#ifdef __GLIBC__
    extern int __cxa_atexit(void (*)(void *), void *, void *);
    void (*again)(void) = (void (*)(void))exit; /* an argument of any type is in a register */
    if (__cxa_atexit((void (*)(void *))again, (void *)(intptr_t)status, NULL) != 0) {
        exit(status);
    }
#else
    fflush(NULL);
    _exit(status);
#endif
}

const char *process_program_name(void) {
#ifdef __GLIBC__
    extern const char *__progname; /* program_invocation_short_name is its second name */
    return __progname ? __progname : "?";
#else
    return "?";
#endif
}

void process_answer_handshake(const char *request, const char *line, size_t length) {
    int saved_errno = errno;
    char *end;
    unsigned long long fd = strtoull(request, &end, 10);
    unsigned long long device = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
    unsigned long long inode = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
    struct stat status;
    if (*end == '\0' && fd <= 65535 && fstat((int)fd, &status) == 0 && S_ISFIFO(status.st_mode) &&
        status.st_dev == device && status.st_ino == inode) {
        kernel_call(SYS_write, (int)fd, line, length);
        kernel_call(SYS_close, (int)fd);
    }
    errno = saved_errno;
}
