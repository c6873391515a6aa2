/* For a unit test's own kernel_call, which stands between the library and the kernel. */
#ifndef PRIM_TESTS_UNIT_KERNEL_WORDS_H
#define PRIM_TESTS_UNIT_KERNEL_WORDS_H

#include <stdarg.h>

/* Who passes fewer than six words leaves the last ones to chance. */
__attribute__((no_sanitize_address)) long kernel_call(long number, ...);

/* Takes the six words that it was called with. */
#define TAKE_KERNEL_WORDS(words, number)     \
    do {                                     \
        va_list list;                        \
        va_start(list, number);              \
        for (int i = 0; i < 6; i++) {        \
            (words)[i] = va_arg(list, long); \
        }                                    \
        va_end(list);                        \
    } while (0)

/* The words that mmap is asked with; s390x gives it their address. */
#ifdef __s390x__
#define MMAP_WORDS(words) ((const long *)(words)[0])
#else
#define MMAP_WORDS(words) ((const long *)(words))
#endif
#define MMAP_LENGTH(words) (MMAP_WORDS(words)[1])

#endif
