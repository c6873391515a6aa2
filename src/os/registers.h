/* registers.h - what the processor's registers are to a walk of the stack and to a debugger.
 *
 * Unwinding needs the stack pointer, the frame pointer, one more register that some code of the
 * loader keeps its frame in, and the address that a function returns to. */
#ifndef PRIM_OS_REGISTERS_H
#define PRIM_OS_REGISTERS_H

#include "base/compiler.h"

enum unwind_register {
    UNWIND_STACK,
    UNWIND_FRAME,
    UNWIND_BASE,
    UNWIND_RETURN, /* the column of the return address */
    UNWIND_REGISTER_COUNT,
};

struct registers {
    uintptr_t pc;
    uintptr_t values[UNWIND_REGISTER_COUNT];
};

/* Of each processor: its registers' numbers in unwind tables (DWARF_), and their places among the
 * words that a debugger is given (WORD_); how far above the stack pointer before the call the
 * canonical frame address is; and where, from the frame pointer on, code without tables keeps its
 * caller's frame pointer and the return address, if it does (RECORD_). */
#define STORE_REGISTERS(registers, here, store, pc_, stack, frame, base, back, ...)     \
    __asm__ volatile(here "\n\t" store pc_ ", %0\n\t" store back ", %4\n\t" store stack \
                          ", %1\n\t" store frame ", %2\n\t" store base ", %3"           \
                     : "=m"((registers)->pc), "=m"((registers)->values[UNWIND_STACK]),  \
                       "=m"((registers)->values[UNWIND_FRAME]),                         \
                       "=m"((registers)->values[UNWIND_BASE]),                          \
                       "=m"((registers)->values[UNWIND_RETURN])                         \
                     :                                                                  \
                     : __VA_ARGS__)
#if defined(__x86_64__)
enum { DWARF_STACK = 7, DWARF_FRAME = 6, DWARF_BASE = 3, DWARF_RETURN = 16 };
enum { CFA_DISTANCE = 0, RECORD_IS_KNOWN = true, RECORD_DISTANCE = 0 };
enum { WORD_STACK = 19, WORD_THREAD = 21 };
#define REGISTERS_HERE(registers)                                                               \
    STORE_REGISTERS(registers, "leaq 0f(%%rip), %%rax\n0:", "movq ", "%%rax", "%%rsp", "%%rbp", \
                    "%%rbx", "%%rax", "rax")
#elif defined(__aarch64__)
enum { DWARF_STACK = 31, DWARF_FRAME = 29, DWARF_BASE = 19, DWARF_RETURN = 30 };
enum { CFA_DISTANCE = 0, RECORD_IS_KNOWN = true, RECORD_DISTANCE = 0 };
enum { WORD_STACK = 31, WORD_THREAD = 0 /* is asked for by itself */ };
#define REGISTERS_HERE(registers)                                                                \
    STORE_REGISTERS(registers, "adr x9, 0f\n0:\tmov x10, sp", "str ", "x9", "x10", "x29", "x19", \
                    "x30", "x9", "x10")
#elif defined(__riscv)
enum { DWARF_STACK = 2, DWARF_FRAME = 8, DWARF_BASE = 9, DWARF_RETURN = 1 };
enum { CFA_DISTANCE = 0, RECORD_IS_KNOWN = true, RECORD_DISTANCE = -16 };
enum { WORD_STACK = 2, WORD_THREAD = 4 };
#define REGISTERS_HERE(registers) \
    STORE_REGISTERS(registers, "lla t0, 0f\n0:", "sd ", "t0", "sp", "s0", "s1", "ra", "t0")
#elif defined(__powerpc64__)
enum { DWARF_STACK = 1, DWARF_FRAME = 31, DWARF_BASE = 30, DWARF_RETURN = 65 };
enum { CFA_DISTANCE = 0, RECORD_IS_KNOWN = false, RECORD_DISTANCE = 0 };
enum { WORD_STACK = 1, WORD_THREAD = 13 };
#define REGISTERS_HERE(registers)                                                               \
    STORE_REGISTERS(registers, "bcl 20, 31, 0f\n0:\tmflr 9", "std ", "9", "1", "31", "30", "9", \
                    "r9", "lr")
#elif defined(__s390x__)
enum { DWARF_STACK = 15, DWARF_FRAME = 11, DWARF_BASE = 12, DWARF_RETURN = 14 };
enum { CFA_DISTANCE = 160, RECORD_IS_KNOWN = false, RECORD_DISTANCE = 0 };
enum { WORD_STACK = 17, WORD_THREAD = 18 };
#define REGISTERS_HERE(registers)                                                              \
    STORE_REGISTERS(registers, "larl %%r1, 0f\n0:", "stg ", "%%r1", "%%r15", "%%r11", "%%r12", \
                    "%%r14", "r1")
#else
enum { DWARF_STACK = -1, DWARF_FRAME = -1, DWARF_BASE = -1, DWARF_RETURN = -1 };
enum { CFA_DISTANCE = 0, RECORD_IS_KNOWN = false, RECORD_DISTANCE = 0 };
enum { WORD_STACK = -1, WORD_THREAD = -1 };
#endif

/* Of the place where this is written: all at one instruction, so that the tables' line for that
 * instruction applies to them. */
#ifdef REGISTERS_HERE
enum { REGISTERS_ARE_KNOWN = true };
#else
enum { REGISTERS_ARE_KNOWN = false };
#define REGISTERS_HERE(registers) ((registers)->pc = 0)
#endif

/* The register of a DWARF number, or UNWIND_REGISTER_COUNT for one that we do not follow. */
PRIM_INLINE unsigned register_of_dwarf(uint64_t number) {
    return number == DWARF_STACK    ? UNWIND_STACK
           : number == DWARF_FRAME  ? UNWIND_FRAME
           : number == DWARF_BASE   ? UNWIND_BASE
           : number == DWARF_RETURN ? UNWIND_RETURN
                                    : UNWIND_REGISTER_COUNT;
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
