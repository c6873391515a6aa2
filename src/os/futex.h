/* futex.h - futex(2), and the kernel's numbers for it by the names of <linux/futex.h>.
 *
 * Those headers are not there for every C library's compiler; Debian's musl-gcc has none. */
#ifndef PRIM_OS_FUTEX_H
#define PRIM_OS_FUTEX_H

#include "base/atomics.h"

enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_PRIVATE_FLAG = 128 };

struct timespec;

/* For threads of this process; without a time it waits for as long as it takes. Keeps errno. */
void futex_call(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *time);

#endif
