/* standard_linux.c - prctl, by which a program tells the kernel that it confines itself.
 *
 * A filter may kill whoever makes another system call than those it was written for, which are
 * those of the program on glibc's malloc. Whoever sets one without privileges says so first, by
 * PR_SET_NO_NEW_PRIVS. What shares our memory only until it becomes another program (vfork) has
 * another process number and confines nobody here. */
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/confined.h"
#include "os/process.h"

PRIM_EXPORT int prctl(int operation, ...) {
    unsigned long words[4];
    va_list arguments;
    va_start(arguments, operation);
    for (unsigned i = 0; i < 4; i++) {
        words[i] = va_arg(arguments, unsigned long);
    }
    va_end(arguments);
    bool confines = operation == PR_SET_NO_NEW_PRIVS || operation == PR_SET_SECCOMP;
    if (confines && !is_confined() && process_is_home()) {
        confined_begin();
    }
    return (int)syscall(SYS_prctl, operation, words[0], words[1], words[2], words[3]);
}
