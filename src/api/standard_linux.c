/* standard_linux.c - prctl, by which a program tells the kernel that it confines itself.
 *
 * A filter may kill whoever makes another system call than those it was written for, which are
 * those of the program on glibc's malloc. Whoever sets one without privileges says so first, by
 * PR_SET_NO_NEW_PRIVS. What shares our memory only until it becomes another program (vfork) has
 * another process number and confines nobody here, if the kernel tells the two apart. */
#include <sys/prctl.h>

#include "objects/maintenance.h"
#include "os/confined.h"
#include "os/kernel.h"
#include "os/process.h"

/* Under a name of its own in C: <sys/prctl.h> declares it with an ellipsis; it takes five words. */
PRIM_EXPORT int linux_prctl(int option, unsigned long second, unsigned long third,
                            unsigned long fourth, unsigned long fifth) __asm__("prctl");

int linux_prctl(int option, unsigned long second, unsigned long third, unsigned long fourth,
                unsigned long fifth) {
    bool confines = option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP;
    if (confines && !is_confined() && process_owns_memory()) {
        maintenance_confine();
    }
    return (int)kernel_call(SYS_prctl, option, second, third, fourth, fifth);
}
