/* vdso.h - functions that the kernel maps into every process, found without the loader's help: they
 * are neither interposed by anybody (trap T02) nor system calls (trap T20). */
#ifndef PRIM_OS_VDSO_H
#define PRIM_OS_VDSO_H

#include "base/compiler.h"

/* The function of this name behind the __vdso_ or __kernel_ that the processor's kernel puts before
 * all of them, or NULL. */
void *vdso_function(const char *name);

#endif
