/* futex.h - the kernel's numbers for futex(2), by the names of <linux/futex.h>.
 *
 * Those headers are not there for every C library's compiler; Debian's musl-gcc has none. */
#ifndef PRIM_OS_FUTEX_H
#define PRIM_OS_FUTEX_H

enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_PRIVATE_FLAG = 128 };

#endif
