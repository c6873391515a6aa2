/* standard_c.c - the malloc family under the names of C and POSIX, and under primalloc.h's.
 *
 * The standard each function follows stands in exports.def; so do the names under which glibc has
 * them too, which old programs and other interposers link. */
#include "api/family.h"
#include "api/standard.h"

PRIM_EXPORT void *malloc(size_t size) {
    return family_malloc(size);
}

PRIM_EXPORT void free(void *block) {
    family_free(block);
}

PRIM_EXPORT void *calloc(size_t count, size_t size) {
    return family_calloc(count, size);
}

PRIM_EXPORT void *realloc(void *block, size_t size) {
    return family_realloc(block, size);
}

PRIM_EXPORT void free_sized(void *block, size_t size) {
    family_free_sized(block, size);
}

PRIM_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    family_free_aligned_sized(block, alignment, size);
}

PRIM_EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    return family_aligned_alloc(alignment, size);
}

PRIM_EXPORT int posix_memalign(void **result, size_t alignment, size_t size) {
    return family_posix_memalign(result, alignment, size);
}

ALIAS(prim_malloc, malloc)
ALIAS(prim_free, free)
ALIAS(prim_calloc, calloc)
ALIAS(prim_realloc, realloc)
ALIAS(prim_free_sized, free_sized)
ALIAS(prim_free_aligned_sized, free_aligned_sized)
ALIAS(prim_aligned_alloc, aligned_alloc)
ALIAS(prim_posix_memalign, posix_memalign)
ALIAS(__libc_malloc, malloc)
ALIAS(__libc_calloc, calloc)
ALIAS(__libc_realloc, realloc)
ALIAS(__libc_free, free)
ALIAS(__libc_cfree, free)
ALIAS(cfree, free)
ALIAS(__posix_memalign, posix_memalign)
