/* thread_label.h - names of threads as small numbers, for sites. */
#ifndef PRIM_WATCH_THREAD_LABEL_H
#define PRIM_WATCH_THREAD_LABEL_H

#include "os/thread.h"

enum { THREAD_LABELS_MAX = 1024 };

/* That of the calling thread; 0 if unknown, or if there are too many. */
unsigned thread_label(void);

/* The same without a system call as a rule: a thread that changes its name is noticed later. */
unsigned thread_label_soon(void);

unsigned thread_label_count(void);
const char *thread_label_name(unsigned label); /* terminated; that of 0 is "" */

#endif
