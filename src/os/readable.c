/* readable.c - see readable.h. */
#include "os/readable.h"

#include <errno.h>

#include "base/bits.h"
#include "os/kernel.h"

enum { PAGE_SHIFT = 12, HOW_NONE = -1, SIGNAL_SET_SIZE = 8 };

/* rt_sigprocmask reads the set that it is given before it looks at what is to be done with it. */
bool readable_page(uintptr_t address) {
    if (address >> PAGE_SHIFT == 0 || address >> PRIM_ADDRESS_BITS) {
        return false; /* nobody's, as NULL would mean no set; the kernel's half */
    }
    int saved_errno = errno;
    uintptr_t word = bits_round_down(address, SIGNAL_SET_SIZE);
    long result = kernel_call(SYS_rt_sigprocmask, HOW_NONE, word, NULL, SIGNAL_SET_SIZE);
    bool is_readable = result == 0 || errno != EFAULT;
    errno = saved_errno;
    return is_readable;
}
