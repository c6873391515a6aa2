/* The standard names of the library under test, which the link renames to under_test_NAME: the
 * fuzzer itself lives on libc's malloc. */
#ifndef TESTS_FUZZ_STANDARD_H
#define TESTS_FUZZ_STANDARD_H

#include <mcheck.h>
#include <stddef.h>

void *under_test_malloc(size_t size);
void *under_test_calloc(size_t count, size_t size);
void *under_test_realloc(void *block, size_t size);
void *under_test_reallocarray(void *block, size_t count, size_t size);
void *under_test_aligned_alloc(size_t alignment, size_t size);
void *under_test_memalign(size_t alignment, size_t size);
void *under_test_valloc(size_t size);
void *under_test_pvalloc(size_t size);
int under_test_posix_memalign(void **result, size_t alignment, size_t size);
int under_test___posix_memalign(void **result, size_t alignment, size_t size);
void *under_test___libc_malloc(size_t size);
void *under_test___libc_calloc(size_t count, size_t size);
void *under_test___libc_realloc(void *block, size_t size);
void *under_test___libc_memalign(size_t alignment, size_t size);
void *under_test___libc_valloc(size_t size);
void *under_test___libc_pvalloc(size_t size);
void under_test_free(void *block);
void under_test_cfree(void *block);
void under_test___libc_free(void *block);
void under_test___libc_cfree(void *block);
void under_test_free_sized(void *block, size_t size);
void under_test_free_aligned_sized(void *block, size_t alignment, size_t size);
size_t under_test_malloc_usable_size(void *block);
int under_test_mcheck(void (*handler)(enum mcheck_status));

#endif
