/* standard_glibc.c - the extensions that glibc has under its own names, and the aliases under
 * which glibc exports its malloc (old programs and other interposers link them). */
#include "api/family.h"
#include "api/standard.h"

PRIM_EXPORT void *memalign(size_t alignment, size_t size) {
    return family_memalign(alignment, size);
}

PRIM_EXPORT void *valloc(size_t size) {
    return family_valloc(size);
}

PRIM_EXPORT void *pvalloc(size_t size) {
    return family_pvalloc(size);
}

PRIM_EXPORT void cfree(void *block) {
    family_free(block);
}

PRIM_EXPORT size_t malloc_usable_size(void *block) {
    return front_usable_size(block);
}

PRIM_EXPORT int malloc_trim(size_t pad) {
    return prim_malloc_trim(pad);
}

PRIM_EXPORT int mallopt(int parameter, int value) {
    return prim_mallopt(parameter, value);
}

PRIM_EXPORT struct prim_mallinfo mallinfo(void) {
    return prim_mallinfo();
}

PRIM_EXPORT struct prim_mallinfo2 mallinfo2(void) {
    return prim_mallinfo2();
}

PRIM_EXPORT int malloc_info(int options, FILE *stream) {
    return prim_malloc_info(options, stream);
}

PRIM_EXPORT void malloc_stats(void) {
    prim_malloc_stats();
}

#define ALIAS(type, name, parameters, call) \
    PRIM_EXPORT type name parameters;       \
    type name parameters {                  \
        call;                               \
    }

ALIAS(void *, __libc_malloc, (size_t size), return family_malloc(size))
ALIAS(void *, __libc_calloc, (size_t count, size_t size), return family_calloc(count, size))
ALIAS(void *, __libc_realloc, (void *block, size_t size), return family_realloc(block, size))
ALIAS(void, __libc_free, (void *block), family_free(block))
ALIAS(void, __libc_cfree, (void *block), family_free(block))
ALIAS(void *, __libc_memalign, (size_t alignment, size_t size),
      return family_memalign(alignment, size))
ALIAS(void *, __libc_valloc, (size_t size), return family_valloc(size))
ALIAS(void *, __libc_pvalloc, (size_t size), return family_pvalloc(size))
ALIAS(int, __posix_memalign, (void **result, size_t alignment, size_t size),
      return family_posix_memalign(result, alignment, size))
