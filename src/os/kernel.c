/* kernel.c - see kernel.h. */
#include "os/kernel.h"

#include <errno.h>
#include <unistd.h>

#include "base/compiler.h"
#include "os/confined.h"

/* kernel_call under its other name, by which it takes all six words: of those that a caller leaves
 * out it finds anything, and so does the kernel, which does not look at them. */
static __attribute__((used)) PRIM_NOINLINE long kernel_call_words(long number, long first,
                                                                  long second, long third,
                                                                  long fourth, long fifth,
                                                                  long sixth) {
#if defined(__x86_64__)
    register long word4 __asm__("r10") = fourth;
    register long word5 __asm__("r8") = fifth;
    register long word6 __asm__("r9") = sixth;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(first), "S"(second), "d"(third), "r"(word4), "r"(word5),
                       "r"(word6)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long call __asm__("x8") = number;
    register long result __asm__("x0") = first;
    register long word2 __asm__("x1") = second;
    register long word3 __asm__("x2") = third;
    register long word4 __asm__("x3") = fourth;
    register long word5 __asm__("x4") = fifth;
    register long word6 __asm__("x5") = sixth;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(call), "r"(word2), "r"(word3), "r"(word4), "r"(word5), "r"(word6)
                     : "memory");
#else
    return syscall(number, first, second, third, fourth, fifth, sixth);
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    if ((unsigned long)result > -4096UL) {
        errno = (int)-result;
        result = -1;
    }
    return result;
#endif
}

static __attribute__((used)) PRIM_NOINLINE long kernel_ask_words(long number, long first,
                                                                 long second, long third,
                                                                 long fourth, long fifth,
                                                                 long sixth) {
    if (!confined_may_ask()) {
        return -1;
    }
    long result = kernel_call(number, first, second, third, fourth, fifth, sixth);
    confined_asked();
    return result;
}

#ifndef __clang__ /* which knows no such warning */
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
long kernel_call(long number, ...) __attribute__((alias("kernel_call_words")));
long kernel_ask(long number, ...) __attribute__((alias("kernel_ask_words")));
