/* standard_glibc.c - the extensions that glibc has under its own names. */
#include "api/family.h"
#include "api/standard.h"

PRIM_EXPORT void *memalign(size_t alignment, size_t size) {
    return family_memalign(alignment, size);
}

/* As glibc's it calls the process's realloc, which is not ours where the program has a malloc of
 * its own, another allocator stands before us, or valgrind: all without a reallocarray. */
PRIM_EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    return family_reallocarray(block, count, size, realloc);
}

PRIM_EXPORT void *prim_reallocarray(void *block, size_t count, size_t size) {
    return family_reallocarray(block, count, size, front_realloc);
}

PRIM_EXPORT void *valloc(size_t size) {
    return family_valloc(size);
}

PRIM_EXPORT void *pvalloc(size_t size) {
    return family_pvalloc(size);
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

ALIAS(prim_memalign, memalign)
ALIAS(prim_valloc, valloc)
ALIAS(prim_pvalloc, pvalloc)
ALIAS(prim_malloc_usable_size, malloc_usable_size)
ALIAS(__libc_memalign, memalign)
ALIAS(__libc_valloc, valloc)
ALIAS(__libc_pvalloc, pvalloc)
