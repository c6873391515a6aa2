/* prim.c - the malloc family where the prim_ names are the only ones it has: elsewhere they
 * are further names of the standard functions. */
#include "api/family.h"
#include "primalloc.h"

PRIM_EXPORT void *prim_malloc(size_t size) {
    return family_malloc(size);
}

PRIM_EXPORT void prim_free(void *block) {
    family_free(block);
}

PRIM_EXPORT void *prim_calloc(size_t count, size_t size) {
    return family_calloc(count, size);
}

PRIM_EXPORT void *prim_realloc(void *block, size_t size) {
    return family_realloc(block, size);
}

PRIM_EXPORT void *prim_reallocarray(void *block, size_t count, size_t size) {
    return family_reallocarray(block, count, size, prim_realloc);
}

PRIM_EXPORT void prim_free_sized(void *block, size_t size) {
    family_free_sized(block, size);
}

PRIM_EXPORT void prim_free_aligned_sized(void *block, size_t alignment, size_t size) {
    family_free_aligned_sized(block, alignment, size);
}

PRIM_EXPORT void *prim_aligned_alloc(size_t alignment, size_t size) {
    return family_aligned_alloc(alignment, size);
}

PRIM_EXPORT int prim_posix_memalign(void **result, size_t alignment, size_t size) {
    return family_posix_memalign(result, alignment, size);
}

PRIM_EXPORT void *prim_memalign(size_t alignment, size_t size) {
    return family_memalign(alignment, size);
}

PRIM_EXPORT void *prim_valloc(size_t size) {
    return family_valloc(size);
}

PRIM_EXPORT void *prim_pvalloc(size_t size) {
    return family_pvalloc(size);
}

PRIM_EXPORT size_t prim_malloc_usable_size(void *block) {
    return front_usable_size(block);
}
