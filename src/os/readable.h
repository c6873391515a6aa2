/* readable.h - whether memory can be read, asked without a risk.
 *
 * For walks over memory that somebody else describes: a wrong frame pointer must end the walk, not
 * the program. Safe in signal handlers and under seccomp: the system call is one that every program
 * may make. */
#ifndef PRIM_OS_READABLE_H
#define PRIM_OS_READABLE_H

#include "base/compiler.h"

/* Whether the page that holds this address can be read now: the kernel is asked each time. */
bool readable_page(uintptr_t address);

#endif
