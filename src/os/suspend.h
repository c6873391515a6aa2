/* suspend.h - all other threads of the process stopped for a while, with their registers.
 *
 * By a helper process that shares our memory and attaches to them as a debugger does: threads may
 * block every signal, no handler runs in them, no system call of theirs is cut short but to be gone
 * on with. Where that is forbidden (a debugger is attached, seccomp, a container), nobody is
 * stopped. The helper takes no lock and allocates nothing; the caller must not wait for a lock that
 * a stopped thread may hold. */
#ifndef PRIM_OS_SUSPEND_H
#define PRIM_OS_SUSPEND_H

#include "base/atomics.h"

enum { SUSPEND_THREADS_MAX = 4096, SUSPEND_REGISTERS = 34 };

struct suspended_thread {
    int id;
    int signal;               /* that it was about to receive */
    uintptr_t stack_pointer;  /* 0: its registers could not be read */
    uintptr_t thread_pointer; /* its thread control block: thread_mark() */
    uintptr_t registers[SUSPEND_REGISTERS];
};

struct suspension {
    unsigned count;
    bool is_complete; /* every thread is there */
    _Atomic uint32_t state;
    int caller;
    int process;
    int ended;     /* a thread that is over, but is there; 0: none */
    int directory; /* the list of threads */
    int helper;
    unsigned looks_left;              /* at a thread that does not stop */
    struct suspended_thread *threads; /* and behind them the helper's stack */
};

/* False, with nobody stopped, if that is not possible. */
bool suspend_others(struct suspension *suspension);
void suspend_end(struct suspension *suspension);

#endif
