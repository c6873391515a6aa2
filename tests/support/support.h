/* What all test programs share: proof of the allocator under test, seeds, scale, a watchdog, memory
 * readings. Nothing here allocates, so that a helper never disturbs what it helps to test. */
#ifndef TESTS_SUPPORT_SUPPORT_H
#define TESTS_SUPPORT_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cmocka.h needs these first. */
#include <setjmp.h>
#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fails the process at once; unlike cmocka's assertions it may be used in any thread and in forked
 * children. */
#define CHECK(condition, ...)                                          \
    do {                                                               \
        if (!(condition)) {                                            \
            check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
        }                                                              \
    } while (0)

__attribute__((noreturn, format(printf, 4, 5))) void check_failed(const char *file, int line,
                                                                  const char *condition,
                                                                  const char *format, ...);

/* Called first in main: ends the process with a message unless malloc is the one that the
 * environment variable PRIM_TEST_EXPECT names: "FILE" (the object that must define malloc), "self"
 * (this program) or "any". */
void expect_allocator(void);

/* Whether the program runs on the C library's own malloc: only so under PRIM_TEST_EXPECT=any. */
bool is_reference_allocator(void);

/* Whether the program runs in an emulator, where some system calls are poor imitations. */
bool is_emulated(void);

/* count, multiplied by the environment variable PRIM_TEST_SCALE (a decimal number, 1 by default);
 * at least 1. */
size_t scaled(size_t count);

/* Ends the process with status 124 and a message when it is not stopped within the time, which
 * PRIM_TEST_PATIENCE multiplies. A forked child starts its own. */
void watchdog_start(unsigned seconds, const char *what);
void watchdog_stop(void);

/* Resident memory and address space of this process. */
size_t resident_bytes(void);

/* Whether several times as much of ThreadSanitizer's own, which stays, is part of that. */
bool has_shadow_memory(void);
size_t mapped_bytes(void);

/* A small fast generator; equal seeds give equal sequences on every machine. */
struct random {
    uint64_t state;
};
uint64_t random_next(struct random *random);
uint64_t random_below(struct random *random, uint64_t bound);
/* Sizes as programs use them: mostly small, some medium, few large, spread evenly over the powers
 * of two below. */
size_t random_size(struct random *random, size_t largest);

/* A pattern that depends on tag and offset; check_pattern returns the first differing offset or
 * size. */
void fill_pattern(void *block, size_t size, uint64_t tag);
size_t check_pattern(const void *block, size_t size, uint64_t tag);

/* The compiler may not know what becomes of the pointer, so it cannot leave the allocation out. */
static inline void *opaque(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static inline size_t opaque_size(size_t size) {
    __asm__ volatile("" : "+r"(size));
    return size;
}

#ifdef __cplusplus
}
#endif

#endif
