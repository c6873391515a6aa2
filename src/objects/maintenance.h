/* maintenance.h - returning what an idle program left behind: a thread that comes and goes.
 *
 * A program that frees much and then makes no call gives nobody an occasion to purge. So when more
 * than MAINTENANCE_ALONE could be returned, a thread is started, which ends a window of purge.h
 * once every options.purge_delay. It costs a process what libc does faster for a single thread, for
 * good. So it comes from MAINTENANCE_MIN on where that is lost, as there has been a second one, or
 * little, as the program used less than a quarter of a processor of late. It leaves when
 * nothing is left to return, or when nothing was for two windows: a process that is done costs no
 * thread and no wake-up. It is a thread of libc's own making, so that a change of user reaches it,
 * but it never gets a thread cache.
 *
 * States, all in one word, maintenance_threshold: SIZE_MAX while there can be no thread (main has
 * not begun) or there is one already; else the dirty bytes from which on one is wanted, which is 0
 * once a look found more in slabs. Starting exchanges the number for SIZE_MAX, leaving puts one
 * back. A process that was refused its thread has MAINTENANCE_ALONE there until it is asked again.
 *
 * Where libc calls us with a lock held that pthread_create takes, it must not be called:
 * docs/concurrency.md says which rules keep us from there. */
#ifndef PRIM_OBJECTS_MAINTENANCE_H
#define PRIM_OBJECTS_MAINTENANCE_H

#include "pages/purge.h"

enum { MAINTENANCE_ALONE = 32 << 20, MAINTENANCE_MIN = 8 << 20 };

extern PRIM_HIDDEN _Atomic size_t maintenance_least; /* (atomic: hint) one of these */

extern PRIM_HIDDEN _Atomic size_t maintenance_threshold; /* (atomic: threshold) */

PRIM_COLD void maintenance_start(const void *caller, bool is_large);

/* At the outer end of a call that may have freed much, under no lock: caller is the address that
 * the call returns to; is_large says that the block was one of large.h, or a heap's end. */
PRIM_INLINE void maintenance_consider(const void *caller, bool is_large) {
    if (PRIM_UNLIKELY(purge_returnable_bytes() >= load_relaxed(&maintenance_threshold))) {
        maintenance_start(caller, is_large);
    }
}

/* Now and then: counts what slabs could return as well, some of them at each call. Starts nothing
 * by itself. */
void maintenance_look(void);

/* Less often: a process that was refused its thread may be one that waits by now. */
void maintenance_ask_again(void);

/* The program's main begins: until then there is no thread. */
void maintenance_note_main(void);

/* A second thread has come, or could. */
void maintenance_note_threads(void);

/* The last thread that had a cache ends: so does ours, lest it keep the process alive. */
void maintenance_leave(void);

/* The same, and waits until there is none, which is true within a second, or until then. */
bool maintenance_end(void);

/* From now on the process is confined (os/confined.h): so there is no thread any more, for what one
 * calls when it ends may be forbidden soon. */
void maintenance_confine(void);

void maintenance_fork_child(void);

#endif
