/* thread.h - a thread of our own, and how it sleeps. */
#ifndef PRIM_OS_THREAD_H
#define PRIM_OS_THREAD_H

#include "base/atomics.h"

/* Starts a detached thread with a small stack, in which every signal is blocked. Takes locks of
 * libc and allocates: see docs/concurrency.md for where it may be called. Keeps errno; false when
 * there can be no thread. */
bool thread_start(void (*body)(void));

/* Names the calling thread, for ps and debuggers; at most 15 characters. */
void thread_name(const char *name);

/* The calling thread's name, terminated and padded with zeros; "" if the kernel does not tell. */
enum { THREAD_NAME_SIZE = 16 };
void thread_name_get(char name[THREAD_NAME_SIZE]);

/* What tells the calling thread from all others that run now: its thread pointer. */
PRIM_INLINE uintptr_t thread_mark(void) {
#if defined(__x86_64__)
    uintptr_t mark;
    __asm__("movq %%fs:0, %0" : "=r"(mark));
    return mark;
#elif defined(__aarch64__)
    uintptr_t mark;
    __asm__("mrs %0, tpidr_el0" : "=r"(mark));
    return mark;
#elif defined(__powerpc64__)
    uintptr_t mark;
    __asm__("mr %0, 13" : "=r"(mark));
    return mark;
#else
    return (uintptr_t)__builtin_thread_pointer();
#endif
}

/* Where libc keeps the address of a thread's table of thread-local blocks: so many words from its
 * thread pointer. */
#if defined(__x86_64__) || defined(__s390x__)
enum { THREAD_TABLE = 1 };
#elif defined(__aarch64__)
enum { THREAD_TABLE = 0 };
#elif defined(__powerpc64__)
enum { THREAD_TABLE = -0x7000 / 8 - 1 };
#else
enum { THREAD_TABLE = -2 };
#endif

/* The calling thread's number, and whether a thread of this process has such a one. */
int thread_number(void);
bool thread_is_there(int number);

/* Whether the process has one thread, as the kernel counts them: also such as are ending. False,
 * and errno is lost, if it does not tell. */
bool thread_is_only(void);

/* Sleeps for so many milliseconds, or until somebody changes the word from value and wakes it, or
 * for no reason at all. */
void thread_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t ms);
void thread_wake(_Atomic uint32_t *word);

#endif
