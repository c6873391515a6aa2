/* leak.h - looks for recorded blocks that nothing points to any more.
 *
 * Every call must be recorded for that (a profile at a rate of 1), from the start. */
#ifndef PRIM_WATCH_LEAK_H
#define PRIM_WATCH_LEAK_H

#include "base/compiler.h"

enum leak_check_choice { LEAK_CHECK_OFF, LEAK_CHECK_MINIMAL, LEAK_CHECK_NORMAL, LEAK_CHECK_STRICT };

/* Prints and writes what it finds, as the options say; the number of blocks that leaked, or -1 if
 * nothing is recorded or there is no memory. */
int64_t leak_check(void);

#endif
