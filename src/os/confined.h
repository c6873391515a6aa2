/* confined.h - whether the process may make only the system calls that glibc's malloc makes.
 *
 * A program that is about to confine itself (seccomp) says so to the kernel by prctl, and so to us
 * (api/standard_linux.c); one that a jail confined before it began is told by the option
 * `confined`. From then on everything in src/os that malloc calls by itself and that would ask
 * more of the kernel answers as if the kernel did not know it: what calls may still be made are
 * mmap, munmap, mremap, mprotect, madvise, futex, and write for messages. It is never
 * taken back.
 *
 * A filter may hold for all threads at once, and another thread may be asking just now. So what
 * asks stands between confined_may_ask and confined_asked, a single call goes by kernel_ask, and
 * who confines the process waits a while, until nobody is asking. */
#ifndef PRIM_OS_CONFINED_H
#define PRIM_OS_CONFINED_H

#include "base/atomics.h"

extern PRIM_HIDDEN _Atomic bool confined; /* (atomic: hint) */

PRIM_INLINE bool is_confined(void) {
    return load_relaxed(&confined);
}

/* Not where it is confined; else confined_asked is to be called soon. They may be nested. */
bool confined_may_ask(void);
void confined_asked(void);

void confined_begin(void);
bool confined_is_asking(void);

/* Who was asking when the process forked is not in the child; the only thread there is not. */
void confined_fork_child(void);

#endif
