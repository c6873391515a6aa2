/* registers.h - what the processor holds where a walk of the stack begins.
 *
 * Unwinding needs the stack pointer, the frame pointer, one more register that some code of the
 * loader keeps its frame in, and the address that a function returns to. */
#ifndef PRIM_OS_REGISTERS_H
#define PRIM_OS_REGISTERS_H

#include "base/compiler.h"

enum unwind_register {
    UNWIND_STACK,  /* rsp, sp */
    UNWIND_FRAME,  /* rbp, x29 */
    UNWIND_BASE,   /* rbx, x19 */
    UNWIND_RETURN, /* the column of the return address: rip, x30 */
    UNWIND_REGISTER_COUNT,
};

struct registers {
    uintptr_t pc;
    uintptr_t values[UNWIND_REGISTER_COUNT];
};

/* Of the place where this is written: all at one instruction, so that the tables' line for that
 * instruction applies to them. */
#if defined(__x86_64__)
#define UNWIND_IS_KNOWN 1
#define REGISTERS_HERE(registers)                                                      \
    __asm__ volatile("leaq 0f(%%rip), %%rax\n0:\tmovq %%rax, %0\n\tmovq %%rax, %4\n\t" \
                     "movq %%rsp, %1\n\tmovq %%rbp, %2\n\tmovq %%rbx, %3"              \
                     : "=m"((registers)->pc), "=m"((registers)->values[UNWIND_STACK]), \
                       "=m"((registers)->values[UNWIND_FRAME]),                        \
                       "=m"((registers)->values[UNWIND_BASE]),                         \
                       "=m"((registers)->values[UNWIND_RETURN])                        \
                     :                                                                 \
                     : "rax")
#elif defined(__aarch64__)
#define UNWIND_IS_KNOWN 1
#define REGISTERS_HERE(registers)                                                      \
    __asm__ volatile("adr x9, 0f\n0:\tstr x9, %0\n\tmov x9, sp\n\tstr x9, %1\n\t"      \
                     "str x29, %2\n\tstr x19, %3\n\tstr x30, %4"                       \
                     : "=m"((registers)->pc), "=m"((registers)->values[UNWIND_STACK]), \
                       "=m"((registers)->values[UNWIND_FRAME]),                        \
                       "=m"((registers)->values[UNWIND_BASE]),                         \
                       "=m"((registers)->values[UNWIND_RETURN])                        \
                     :                                                                 \
                     : "x9")
#else
#define UNWIND_IS_KNOWN 0
#define REGISTERS_HERE(registers) ((registers)->pc = 0)
#endif

/* The register of a DWARF number, or UNWIND_REGISTER_COUNT for one that we do not follow. */
PRIM_INLINE unsigned register_of_dwarf(uint64_t number) {
#if defined(__aarch64__)
    return number == 31   ? UNWIND_STACK
           : number == 29 ? UNWIND_FRAME
           : number == 19 ? UNWIND_BASE
           : number == 30 ? UNWIND_RETURN
                          : UNWIND_REGISTER_COUNT;
#else
    return number == 7    ? UNWIND_STACK
           : number == 6  ? UNWIND_FRAME
           : number == 3  ? UNWIND_BASE
           : number == 16 ? UNWIND_RETURN
                          : UNWIND_REGISTER_COUNT;
#endif
}

/* A return address without what pointer authentication puts into its upper bits. */
PRIM_INLINE uintptr_t address_without_signature(uintptr_t address) {
#if defined(__aarch64__)
    return address & (((uintptr_t)1 << PRIM_ADDRESS_BITS) - 1);
#else
    return address;
#endif
}

#endif
