/* suspend.c - see suspend.h. */
#include "os/suspend.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/kernel.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/registers.h"
#include "os/thread.h"

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

/* state: the caller allows the helper to attach, the helper has, the caller is done. */
enum { STATE_FIRST, STATE_ALLOWED, STATE_STOPPED, STATE_DONE };

enum {
    ROOM = SUSPEND_THREADS_MAX * sizeof(struct suspended_thread) + (64 << 10), /* with a stack */
    EVENT_STOP = 128, /* of PTRACE_INTERRUPT, in the status's third byte */
    PATIENCE_MS = 50,
    LOOKS_MAX = 20,     /* of a millisecond each */
    QUICK_LOOKS = 1000, /* whether a thread has stopped, which most have soon, ... */
    SLOW_LOOKS = 1000,  /* ... and then with a millisecond between two */
};

static void read_registers(struct suspended_thread *thread) {
    struct iovec vector = {thread->registers, sizeof thread->registers};
    if (kernel_call(SYS_ptrace, PTRACE_GETREGSET, thread->id, NT_PRSTATUS, &vector) != 0) {
        return;
    }
    thread->stack_pointer = thread->registers[WORD_STACK];
#if defined(__aarch64__)
    struct iovec pointer = {&thread->thread_pointer, sizeof thread->thread_pointer};
    kernel_call(SYS_ptrace, PTRACE_GETREGSET, thread->id, 0x401 /* NT_ARM_TLS */, &pointer);
#else
    thread->thread_pointer = thread->registers[WORD_THREAD];
#endif
}

/* Waits for one that stops, but not for ever: a thread does not that waits for a vfork's child, or
 * for a disk. One such, and the others are hardly waited for either. */
static bool has_stopped(struct suspension *suspension, int id, int *status) {
    long found = 0;
    for (unsigned looks = 0; found == 0 && looks < suspension->looks_left; looks++) {
        if (looks > QUICK_LOOKS) {
            thread_sleep(&suspension->state, STATE_ALLOWED, 1);
        }
        found = kernel_call(SYS_wait4, id, status, __WALL | WNOHANG, NULL);
    }
    if (found == 0) {
        suspension->looks_left = QUICK_LOOKS;
    }
    return found == id && WIFSTOPPED(*status);
}

static bool attach(struct suspension *suspension, int id) {
    struct suspended_thread *thread = &suspension->threads[suspension->count];
    int status;
    *thread = (struct suspended_thread){.id = id};
    if (kernel_call(SYS_ptrace, PTRACE_SEIZE, id, NULL, NULL) != 0 ||
        kernel_call(SYS_ptrace, PTRACE_INTERRUPT, id, NULL, NULL) != 0 ||
        !has_stopped(suspension, id, &status)) {
        return false;
    }
    thread->signal = status >> 16 == EVENT_STOP ? 0 : WSTOPSIG(status);
    read_registers(thread);
    return true;
}

static bool is_attached(const struct suspension *suspension, int id) {
    for (unsigned i = 0; i < suspension->count; i++) {
        if (suspension->threads[i].id == id) {
            return true;
        }
    }
    return id == suspension->caller || id == suspension->ended;
}

struct directory_entry { /* as getdents64 gives them */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* One look at the list of threads: attaches to those that are new; how many these were. */
static unsigned attach_new(struct suspension *suspension) {
    _Alignas(8) char buffer[4096];
    unsigned attached = 0;
    int directory = suspension->directory;
    long size = kernel_call(SYS_lseek, directory, (off_t)0, SEEK_SET);
    while (size == 0 &&
           (size = kernel_call(SYS_getdents64, directory, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < size;) {
            const struct directory_entry *entry = (const void *)(buffer + at);
            int id = 0;
            for (const char *digit = entry->name; *digit >= '0' && *digit <= '9'; digit++) {
                id = id * 10 + (*digit - '0');
            }
            at += entry->length;
            if (id == 0 || is_attached(suspension, id)) {
                continue;
            }
            if (suspension->count == SUSPEND_THREADS_MAX || !attach(suspension, id)) {
                suspension->is_complete = false;
                continue;
            }
            suspension->count++;
            attached++;
        }
        size = 0;
    }
    suspension->is_complete &= size == 0; /* a filter may refuse the list */
    return attached;
}

static void wait_for(struct suspension *suspension, uint32_t state) {
    for (uint32_t now; (now = load_acquire(&suspension->state)) != state;) { /* order pair: state */
        thread_sleep(&suspension->state, now, PATIENCE_MS);
    }
}

/* False if the helper has ended before: killed by hand, or by a filter of system calls. Who was
 * attached goes on then. */
static bool wait_for_helper(struct suspension *suspension) {
    while (load_acquire(&suspension->state) != STATE_STOPPED) { /* order pair: state */
        thread_sleep(&suspension->state, STATE_ALLOWED, PATIENCE_MS);
        if (kernel_call(SYS_wait4, suspension->helper, NULL, WNOHANG | __WALL, NULL) != 0) {
            return false;
        }
    }
    return true;
}

static void announce(struct suspension *suspension, uint32_t state) {
    store_release(&suspension->state, state); /* order pair: state */
    thread_wake(&suspension->state);
}

static int help(void *argument) {
    struct suspension *suspension = argument;
    bool goes_on = suspension->directory >= 0;
    kernel_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0,
                0); /* stopped threads die only with it */
    wait_for(suspension, STATE_ALLOWED);
    for (unsigned looks = 0; goes_on; looks++) { /* those that are attached may have made others */
        suspension->is_complete = true;
        goes_on = attach_new(suspension) > 0;
        if (!suspension->is_complete) { /* who could not be may have ended, and be gone soon */
            goes_on |= looks < LOOKS_MAX;
            thread_sleep(&suspension->state, STATE_ALLOWED, 1);
        }
    }
    announce(suspension, STATE_STOPPED);
    wait_for(suspension, STATE_DONE);
    for (unsigned i = 0; i < suspension->count; i++) {
        const struct suspended_thread *thread = &suspension->threads[i];
        kernel_call(SYS_ptrace, PTRACE_DETACH, thread->id, NULL, (long)thread->signal);
    }
    kernel_call(SYS_exit, 0);
    return 0;
}

static void release(struct suspension *suspension) {
    kernel_call(SYS_close, suspension->directory);
    if (suspension->threads) {
        memory_unmap(suspension->threads, ROOM);
    }
}

/* Where a filter refuses these calls, the helper would stop its caller, too, or nobody could tell
 * when the helper's stack is free. */
static bool may_start_helper(const struct suspension *suspension) {
    return suspension->caller > 0 &&
           kernel_call(SYS_wait4, suspension->process, NULL, WNOHANG | __WALL, NULL) < 0 &&
           errno == ECHILD;
}

PRIM_COLD bool suspend_others(struct suspension *suspension) {
    int saved_errno = errno;
    *suspension = (struct suspension){.caller = (int)kernel_call(SYS_gettid),
                                      .process = process_number(),
                                      .looks_left = QUICK_LOOKS + SLOW_LOOKS};
    suspension->directory = (int)kernel_call(SYS_openat, AT_FDCWD, "/proc/self/task",
                                             O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (kernel_call(SYS_faccessat, suspension->directory, "../exe", F_OK) != 0 && errno == ENOENT) {
        suspension->ended = suspension->process; /* its main thread, which stays in the list */
    }
    bool may_start = REGISTERS_ARE_KNOWN && may_start_helper(suspension);
    suspension->threads = may_start ? memory_map(ROOM) : NULL;
    if (suspension->threads) {
        /* Or handlers of the program's would run in it as well. */
        uint64_t all = ~(uint64_t)0;
        uint64_t before = 0;
        kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof before);
        suspension->helper = clone(help, (char *)suspension->threads + ROOM,
                                   CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, suspension);
        kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    }
    if (suspension->helper <= 0) {
        release(suspension);
        errno = saved_errno;
        return false;
    }
    kernel_call(SYS_prctl, PR_SET_PTRACER, suspension->helper, 0, 0, 0);
    announce(suspension, STATE_ALLOWED);
    if (!wait_for_helper(suspension)) {
        suspension->is_complete = false;
    }
    if (!suspension->is_complete) {
        suspend_end(suspension);
        suspension->count = 0;
    }
    errno = saved_errno;
    return suspension->is_complete;
}

PRIM_COLD void suspend_end(struct suspension *suspension) {
    int saved_errno = errno;
    announce(suspension, STATE_DONE);
    while (kernel_call(SYS_wait4, suspension->helper, NULL, __WALL, NULL) < 0 && errno == EINTR) {}
    release(suspension);
    errno = saved_errno;
}
