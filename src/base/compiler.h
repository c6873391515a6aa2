/* compiler.h - what the compiler is told beyond the C standard. */
#ifndef PRIM_BASE_COMPILER_H
#define PRIM_BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRIM_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define PRIM_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#define PRIM_EXPORT __attribute__((visibility("default")))

/* Which sanitizer watches: of clang and GCC each has words of its own for it. */
#ifdef __has_feature
#define PRIM_HAS_FEATURE(feature) __has_feature(feature)
#else
#define PRIM_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || PRIM_HAS_FEATURE(thread_sanitizer)
#define PRIM_TSAN
#endif
#if defined(__SANITIZE_ADDRESS__) || PRIM_HAS_FEATURE(address_sanitizer)
#define PRIM_ASAN
#endif

/* In files that had better be small (CMakeLists.txt) the compiler sees for itself what is worth a
 * call. Not under sanitizers: they would look into what is called by functions that they are told
 * to leave alone. */
#if defined(PRIM_SMALL) && !defined(PRIM_TSAN) && !defined(PRIM_ASAN)
#define PRIM_INLINE static inline
#else
#define PRIM_INLINE static inline __attribute__((always_inline))
#endif

#define PRIM_NOINLINE __attribute__((noinline))
#define PRIM_COLD __attribute__((cold, noinline))

/* GCC has alias and function agree in what callers are told of them; clang does not ask. */
#if __has_attribute(copy)
#define PRIM_ALIAS(function) __attribute__((alias(#function), copy(function)))
#else
#define PRIM_ALIAS(function) __attribute__((alias(#function)))
#endif

/* Runs in every process, in a file most of which does not (cmake/primalloc_layout.cmake). */
#define PRIM_STARTUP __attribute__((section(".text.startup")))

/* A variable, zero to begin with, of which most processes write no page or a few: lies apart from
 * those that all write to. */
#define PRIM_FAR __attribute__((section(".bss.far")))
#define PRIM_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#define PRIM_CACHE_LINE 64

/* For functions that read what another thread may be writing, and say why that does no harm:
 * ThreadSanitizer leaves them alone. */
#define PRIM_UNWATCHED __attribute__((no_sanitize_thread, noinline))

/* For functions that read what lies around an address of no matter what: AddressSanitizer would
 * take it for the end of a variable. */
#define PRIM_READS_STRANGERS __attribute__((no_sanitize_address))

/* Cross-file data of our own; the compiler then needs no detour through the global offset table. */
#define PRIM_HIDDEN __attribute__((visibility("hidden")))

/* Makes the compiler forget what it knows of a variable in a register. Before a second access to
 * an element it keeps the compiler from computing the element's address once and for all, where
 * two accesses with an address inside the instruction are shorter. */
#define PRIM_FORGET(variable) __asm__("" : "+r"(variable))

#define PRIM_IS_BIG_ENDIAN (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)

/* Puts a variable where a function's result goes; the compiler else moves it there at last. */
#if defined(__x86_64__)
#define PRIM_IN_RESULT(variable) __asm__("" : "+a"(variable))
#else
#define PRIM_IN_RESULT(variable) PRIM_FORGET(variable)
#endif

/* For assembler: an operand that is the address of a variable of our own, which s390x's compiler
 * takes only of those that it knows to lie at an even place (PRIM_EVEN); and what stands before an
 * operand's number so that it is written as the bare constant. */
#if defined(__aarch64__)
#define PRIM_ADDRESS_OF(variable) "S"(variable)
#else
#define PRIM_ADDRESS_OF(variable) "i"(variable)
#endif
#define PRIM_EVEN __attribute__((aligned(2)))
#if defined(__x86_64__) || defined(__aarch64__)
#define PRIM_BARE "%c"
#else
#define PRIM_BARE "%"
#endif

/* Whether a word of memory is 0 or less; GCC would fetch it first, in an instruction of its own. */
PRIM_INLINE bool compiler_is_spent(const int32_t *word) {
#if defined(__x86_64__)
    bool is_spent;
    __asm__("cmpl $0, %1" : "=@ccle"(is_spent) : "m"(*word));
    return is_spent;
#else
    return *word <= 0;
#endif
}

/* The kernel gives addresses of at most this many bits to who asks for none beyond: x86-64, ppc64le
 * and loongarch64 47, aarch64 48 (39 on small kernels), riscv64 38 or 47, s390x 42. */
#if defined(__aarch64__)
#define PRIM_ADDRESS_BITS 48
#else
#define PRIM_ADDRESS_BITS 47
#endif

/* The versions of the symbols that glibc has had from its beginning on this processor, and of
 * __register_atfork. */
#if defined(__x86_64__)
#define PRIM_FIRST_GLIBC "GLIBC_2.2.5"
#define PRIM_ATFORK_GLIBC "GLIBC_2.3.2"
#elif defined(__s390x__)
#define PRIM_FIRST_GLIBC "GLIBC_2.2"
#define PRIM_ATFORK_GLIBC "GLIBC_2.3.2"
#elif defined(__riscv)
#define PRIM_FIRST_GLIBC "GLIBC_2.27"
#define PRIM_ATFORK_GLIBC PRIM_FIRST_GLIBC
#elif defined(__loongarch__)
#define PRIM_FIRST_GLIBC "GLIBC_2.36"
#define PRIM_ATFORK_GLIBC PRIM_FIRST_GLIBC
#else
#define PRIM_FIRST_GLIBC "GLIBC_2.17"
#define PRIM_ATFORK_GLIBC PRIM_FIRST_GLIBC
#endif

#endif
