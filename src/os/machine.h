/* machine.h - processors and time. */
#ifndef PRIM_OS_MACHINE_H
#define PRIM_OS_MACHINE_H

#include "base/compiler.h"

/* How many processors this process may keep busy: the least of its affinity and of its control
 * group's quota, rounded up; at least 1. Asked once, at the first call. */
unsigned machine_processor_count(void);

/* The processor that the calling thread runs on; may be out of date when it returns, and may be
 * any number (more than the count: affinity masks have holes). */
unsigned machine_processor(void);

/* Milliseconds of a clock that never steps back, exact to a few milliseconds. */
uint64_t machine_clock_ms(void);

/* Microseconds of processor time that the calling thread has used. */
uint64_t machine_thread_time_us(void);

#endif
