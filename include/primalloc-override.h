/* primalloc-override.h - turns malloc and its family into primalloc's, file by file, by macro.
 *
 * For programs that link libprimalloc_prefixed.a or the single file and keep libc's malloc beside
 * it. Include it last, or let the compiler: cc -include primalloc-override.h. From there on malloc
 * means prim_malloc, as a call, as std::malloc and where its address is taken; so does a member of
 * that name, in every file that includes this header.
 *
 * It includes headers of libc, which heed a macro like _GNU_SOURCE only if it is defined before the
 * first of them. So where the compiler includes it, define on the command line, too, what the files
 * define for themselves: cc -D_GNU_SOURCE -include primalloc-override.h.
 *
 * What libc itself allocates and hands out (getline, realpath, asprintf, open_memstream, scandir)
 * is libc's to free: pass it to libc_free. In a dynamic program free passes a block of glibc's to
 * glibc, too, as far as it is recognised (docs/compatibility.md); any other block that is not its
 * own it ignores, so such a block is lost. strdup and strndup give primalloc's blocks. C++'s
 * operators new and delete are no macros' matter: see primalloc.hpp. Names of your own: see
 * primalloc-family.h. */
#ifndef PRIMALLOC_OVERRIDE_H
#define PRIMALLOC_OVERRIDE_H

/* What these declare must be declared before the names are macros; <cstdlib> takes them away. */
#ifdef __cplusplus
#include <cstdlib>
#include <cstring>
#include <memory>
#endif
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "primalloc-family.h"
#include "primalloc.h"

PRIMALLOC_FAMILY(prim_override, 1)

/* Frees what libc allocated. */
static __inline__ PRIMALLOC_UNUSED void libc_free(void *block) {
    free(block);
}

#define malloc prim_malloc
#define calloc prim_calloc
#define realloc prim_realloc
#define reallocarray prim_reallocarray
#define free prim_free
#define free_sized prim_free_sized
#define free_aligned_sized prim_free_aligned_sized
#define cfree prim_free
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
#undef strdup
#undef strndup
#define strdup prim_override_strdup
#define strndup prim_override_strndup

#ifdef __cplusplus
namespace std {  // so that std::malloc, which has become std::prim_malloc, is there
using ::prim_aligned_alloc;
using ::prim_calloc;
using ::prim_free;
using ::prim_malloc;
using ::prim_realloc;
}  // namespace std
#endif

#endif
