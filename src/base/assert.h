/* assert.h - internal assertions: compiled into the checked flavour only. */
#ifndef PRIM_BASE_ASSERT_H
#define PRIM_BASE_ASSERT_H

#include "base/compiler.h"

#ifdef PRIM_CHECKED
/* Prints the failed condition with its place and aborts; defined in base/assert.c. */
PRIM_COLD _Noreturn void assert_failed(const char *condition, const char *file, int line);
#define PRIM_ASSERT(condition) \
    (PRIM_LIKELY(condition) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__))
#else
#define PRIM_ASSERT(condition) ((void)sizeof(condition))
#endif

#endif
