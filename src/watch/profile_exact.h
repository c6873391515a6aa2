/* profile_exact.h - rate=1: a watcher that records every call instead of samples. */
#ifndef PRIM_WATCH_PROFILE_EXACT_H
#define PRIM_WATCH_PROFILE_EXACT_H

void profile_exact_start(void);
void profile_exact_stop(void);

/* Blocks that the calling thread allocates in between are ignored by who looks for leaks. */
void profile_exact_ignore_begin(void);
void profile_exact_ignore_end(void);

#endif
