/* fault.h - being told of accesses to memory that is forbidden, before whoever else is told. */
#ifndef PRIM_OS_FAULT_H
#define PRIM_OS_FAULT_H

#include "base/compiler.h"

/* FAULT_ACCESS: the machine does not tell which. */
enum fault_access { FAULT_ACCESS, FAULT_READ, FAULT_WRITE };

/* Called in the signal's handler, on the stack that the program has given for it. True if the
 * access may be tried again; else the signal is passed on to the action that was there before. */
typedef bool fault_function(uintptr_t address, enum fault_access access);

/* Takes over SIGSEGV, once; what the program sets afterwards takes it over from us. */
void fault_catch(fault_function *function);

#endif
