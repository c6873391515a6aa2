/* readable.c - see readable.h. */
#include "os/readable.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/bits.h"

enum { PAGE_SHIFT = 12, KNOWN_COUNT = 512, HOW_NONE = -1, SIGNAL_SET_SIZE = 8 };

/* (atomic: hint) Numbers of pages that were found readable. */
static PRIM_FAR _Atomic uintptr_t known_pages[KNOWN_COUNT];

/* rt_sigprocmask reads the set that it is given before it looks at what is to be done with it. */
bool readable_page_now(uintptr_t address) {
    if (address >> PAGE_SHIFT == 0 || address >> PRIM_ADDRESS_BITS) {
        return false; /* nobody's, as NULL would mean no set; the kernel's half */
    }
    int saved_errno = errno;
    uintptr_t word = bits_round_down(address, SIGNAL_SET_SIZE);
    long result = syscall(SYS_rt_sigprocmask, HOW_NONE, word, NULL, SIGNAL_SET_SIZE);
    bool is_readable = result == 0 || errno != EFAULT;
    errno = saved_errno;
    return is_readable;
}

bool readable_page(uintptr_t address) {
    uintptr_t page = address >> PAGE_SHIFT;
    _Atomic uintptr_t *known = &known_pages[page % KNOWN_COUNT];
    if (PRIM_LIKELY(load_relaxed(known) == page && page)) {
        return true;
    }
    if (!readable_page_now(address)) {
        return false;
    }
    store_relaxed(known, page);
    return true;
}
