/* alone.h - whether the process has one thread, so that nobody can see what it does half done.
 *
 * libc knows (<sys/single_threaded.h> of glibc 2.32): pthread_create clears its flag before the
 * thread begins. A thread that is alone when it begins a critical section is so at its end, as
 * long as it starts no thread in between. */
#ifndef PRIM_OS_ALONE_H
#define PRIM_OS_ALONE_H

#include "base/atomics.h"

extern PRIM_HIDDEN const char *alone_flag; /* (const after main began) libc's, or always 0 */

/* Where libc's flag is; NULL where it has none: then nobody is ever alone. Called before main, by
 * the only thread. */
void alone_learn(const char *flag);

PRIM_INLINE bool process_is_alone(void) {
    return *alone_flag;
}

#endif
