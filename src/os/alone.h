/* alone.h - whether the process has one thread, so that nobody can see what it does half done.
 *
 * libc knows: pthread_create clears the flag before the thread begins (glibc 2.32, <sys/single_threaded.h>;
 * other libcs lack it, and then nobody is ever alone). A thread that is alone when it begins a
 * critical section is so at its end, as long as it starts no thread in between. */
#ifndef PRIM_OS_ALONE_H
#define PRIM_OS_ALONE_H

#include "base/atomics.h"

extern char __libc_single_threaded __attribute__((weak));

PRIM_INLINE bool process_is_alone(void) {
    return &__libc_single_threaded && __libc_single_threaded;
}

/* Adds to a counter of all threads: an atomic instruction costs as much as ten others. */
PRIM_INLINE void counter_add(_Atomic size_t *counter, size_t value) {
    if (process_is_alone()) {
        store_relaxed(counter, load_relaxed(counter) + value);
    } else {
        add_relaxed(counter, value);
    }
}

#endif
