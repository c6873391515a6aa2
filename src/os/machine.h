/* machine.h - processors and time. */
#ifndef PRIM_OS_MACHINE_H
#define PRIM_OS_MACHINE_H

#include "base/compiler.h"

/* How many processors this process may keep busy: the least of its first thread's affinity (the
 * caller's own may be one processor, as programs pin their workers) and of its control group's
 * quota, rounded up; at least 1. Asked once, at the first call; a guess where the process is
 * confined by then. */
unsigned machine_processor_count(void);

/* The processor that the calling thread runs on; may be out of date when it returns, and may be
 * any number (more than the count: affinity masks have holes). */
unsigned machine_processor(void);

/* Milliseconds of a clock that never steps back, exact to a few milliseconds. No system call. */
uint64_t machine_clock_ms(void);

/* The same clock in microseconds, exact; and the time of day in nanoseconds since 1970. */
uint64_t machine_clock_us(void);
uint64_t machine_time_ns(void);

/* Whether what is to happen next at a time of that clock is due: also if it is farther off than it
 * was ever set, because the clock is another by now: that of a fork's child in another time
 * namespace, or of a process that was frozen and restored. */
PRIM_INLINE bool machine_is_time(uint64_t now, uint64_t next, uint64_t farthest) {
    return now >= next || next - now > farthest;
}

/* A counter that runs at a constant rate, which is not exactly known, and costs no system call;
 * nanoseconds where the processor tells no rate, or none that programs can read. */
uint64_t machine_ticks_by_clock(void);

PRIM_INLINE uint64_t machine_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return machine_ticks_by_clock();
#endif
}

/* How far it comes in a millisecond, to within a factor of two or so. */
PRIM_INLINE uint64_t machine_ticks_a_ms(void) {
#if defined(__x86_64__)
    return 1 << 21;
#elif defined(__aarch64__) /* from 24 MHz to 1 GHz */
    uint64_t frequency;
    __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency / 1000;
#else
    return 1000000;
#endif
}

/* Numbers that nobody outside can tell beforehand; different at each call. */
uint64_t machine_random(void);

/* Microseconds of processor time that the calling thread has used; that the process has. */
uint64_t machine_thread_time_us(void);
uint64_t machine_process_time_us(void);

#endif
