/* standard.h - declarations of what libc's headers declare differently, or not at all.
 *
 * The files that define the standard names include this header instead of <stdlib.h> and
 * <malloc.h>, whose attributes and versions differ from system to system. */
#ifndef PRIM_API_STANDARD_H
#define PRIM_API_STANDARD_H

#include <stddef.h>
#include <stdio.h>

#include "base/compiler.h"
#include "primalloc.h"

void *malloc(size_t size);
void free(void *block);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void *reallocarray(void *block, size_t count, size_t size);
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **result, size_t alignment, size_t size);

void *memalign(size_t alignment, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);
size_t malloc_usable_size(void *block);
int malloc_trim(size_t pad);
int mallopt(int parameter, int value);
struct prim_mallinfo mallinfo(void);
struct prim_mallinfo2 mallinfo2(void);
int malloc_info(int options, FILE *stream);
void malloc_stats(void);

/* One more name for a function of the same file. */
#define ALIAS(name, function) PRIM_EXPORT __typeof__(function) name PRIM_ALIAS(function);

#endif
