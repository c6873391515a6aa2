/* kernel.h - system calls of our own.
 *
 * ISO C and POSIX leave the name `syscall` to the program, and libraries that are preloaded take
 * libc's place: what stands there may count, refuse, allocate or be something else altogether. So
 * nothing here calls it, where kernel.c knows the machine's instruction, nor any wrapper of mmap
 * and its family, which would run under a lock of ours (trap T01). */
#ifndef PRIM_OS_KERNEL_H
#define PRIM_OS_KERNEL_H

#include <sys/syscall.h>

/* As libc's syscall: up to six words; -1 and errno when the kernel refuses. */
long kernel_call(long number, ...);

/* The same for what nobody asked for: not called in a process that is confined (confined.h). */
long kernel_ask(long number, ...);

#endif
