/* primalloc-family.h - primalloc under names and with default sizes of your own.
 *
 *     PRIMALLOC_FAMILY(my, 64)
 *
 * in a header of yours defines my_malloc, my_calloc, my_realloc, my_aligned_alloc, my_free,
 * my_strdup and my_strndup, inline: what primalloc.h says of them holds, but that a request for 0
 * bytes gets 64, and my_realloc never frees. To give every file these names:
 *
 *     #define malloc my_malloc
 *
 * and so on, after the system's headers, as primalloc-override.h does. */
#ifndef PRIMALLOC_FAMILY_H
#define PRIMALLOC_FAMILY_H

#include <stddef.h>
#include <string.h>

#include "primalloc.h"

#define PRIMALLOC_UNUSED __attribute__((unused))
#ifdef __cplusplus
#define PRIMALLOC_TEXT(block) static_cast<char *>(block)
#else
#define PRIMALLOC_TEXT(block) ((char *)(block))
#endif

#define PRIMALLOC_FAMILY(prefix, default_size)                                                 \
    static __inline__ PRIMALLOC_UNUSED size_t prefix##_size(size_t size) {                     \
        return size ? size : (default_size);                                                   \
    }                                                                                          \
    static __inline__ PRIMALLOC_UNUSED void *prefix##_malloc(size_t size) {                    \
        return prim_malloc(prefix##_size(size));                                               \
    }                                                                                          \
    static __inline__ PRIMALLOC_UNUSED void *prefix##_calloc(size_t count, size_t size) {      \
        return count && size ? prim_calloc(count, size) : prim_calloc(1, prefix##_size(0));    \
    }                                                                                          \
    static __inline__ PRIMALLOC_UNUSED void *prefix##_realloc(void *block, size_t size) {      \
        return prim_realloc(block, prefix##_size(size));                                       \
    }                                                                                          \
    static __inline__ PRIMALLOC_UNUSED void *prefix##_aligned_alloc(size_t alignment,          \
                                                                    size_t size) {             \
        return prim_aligned_alloc(alignment, prefix##_size(size));                             \
    }                                                                                          \
    static __inline__ PRIMALLOC_UNUSED void prefix##_free(void *block) {                       \
        prim_free(block);                                                                      \
    }                                                                                          \
    static __inline__ PRIMALLOC_UNUSED char *prefix##_strndup(const char *text, size_t most) { \
        size_t length = 0;                                                                     \
        char *copy;                                                                            \
        while (length < most && text[length]) {                                                \
            length++;                                                                          \
        }                                                                                      \
        copy = PRIMALLOC_TEXT(prim_malloc(length + 1));                                        \
        if (copy) {                                                                            \
            memcpy(copy, text, length);                                                        \
            copy[length] = '\0';                                                               \
        }                                                                                      \
        return copy;                                                                           \
    }                                                                                          \
    static __inline__ PRIMALLOC_UNUSED char *prefix##_strdup(const char *text) {               \
        return prefix##_strndup(text, strlen(text));                                           \
    }

#endif
