/* Threads that allocate and free, so that a fork catches every lock in every state. */
#ifndef TESTS_FORK_LOAD_H
#define TESTS_FORK_LOAD_H

#include <stddef.h>

/* Starts count threads; some work on small sizes, some on all, some resize, some trim. */
void load_start(size_t count);

/* Stops and joins them. Only in the process that started them. */
void load_stop(void);

/* Allocates, checks and frees blocks of all sizes in the calling thread. */
void exercise_allocator(unsigned seed);

/* The same in new threads. */
void exercise_threads(size_t count, unsigned seed);

/* Waits for a child and fails unless it exited with status 0. */
void expect_success(int child, const char *what);

#endif
