/* The names under test. One source serves every flavour: with PRIM_TEST_PREFIXED the standard names
 * become the prim_ ones; otherwise they are the process's own. Include it after every system
 * header. */
#ifndef TESTS_SUPPORT_NAMES_H
#define TESTS_SUPPORT_NAMES_H

#include <malloc.h>
#include <stdlib.h>

#if defined PRIM_TEST_PREFIXED

#include "primalloc.h"

#define malloc prim_malloc
#define calloc prim_calloc
#define realloc prim_realloc
#define reallocarray prim_reallocarray
#define free prim_free
#define free_sized prim_free_sized
#define free_aligned_sized prim_free_aligned_sized
#define aligned_alloc prim_aligned_alloc
#define posix_memalign prim_posix_memalign
#define memalign prim_memalign
#define valloc prim_valloc
#define pvalloc prim_pvalloc
#define malloc_usable_size prim_malloc_usable_size
#define malloc_trim prim_malloc_trim
#define mallopt prim_mallopt
#define mallinfo prim_mallinfo
#define mallinfo2 prim_mallinfo2
#define malloc_info prim_malloc_info
#define malloc_stats prim_malloc_stats

#else

/* Names that the C library's headers do not declare. A preloaded library brings them only at run
 * time, so there they are weak; in a static link they must be strong, since a weak reference takes
 * no member out of an archive. */
#if defined PRIM_TEST_STATIC
#define TEST_LATE_BOUND
#else
#define TEST_LATE_BOUND __attribute__((weak))
#endif

#ifdef __cplusplus
extern "C" {
#endif
TEST_LATE_BOUND extern void cfree(void *block);
TEST_LATE_BOUND extern void free_sized(void *block, size_t size);
TEST_LATE_BOUND extern void free_aligned_sized(void *block, size_t alignment, size_t size);
#ifdef __cplusplus
}
#endif

#endif

#if defined PRIM_TEST_PREFIXED || defined PRIM_TEST_STATIC
#define has_sized_free() 1
#define has_cfree() 1
#else
#define has_cfree() (cfree != NULL)
#define has_sized_free() (free_sized != NULL && free_aligned_sized != NULL)
#endif

#endif
