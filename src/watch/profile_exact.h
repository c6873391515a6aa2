/* profile_exact.h - rate=1: a watcher that records every call instead of samples. */
#ifndef PRIM_WATCH_PROFILE_EXACT_H
#define PRIM_WATCH_PROFILE_EXACT_H

void profile_exact_start(void);
void profile_exact_stop(void);

#endif
