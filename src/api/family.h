/* family.h - the bodies of the malloc family, shared by the standard and the prim_ names.
 *
 * Each is inlined into the function that the program calls: so __builtin_return_address here is the
 * program's, and what ends in a jump leaves it in place.
 *
 * What the standards say of arguments (overflow, alignment, size 0) is decided here; what blocks
 * are made of is decided below, in objects/. */
#ifndef PRIM_API_FAMILY_H
#define PRIM_API_FAMILY_H

#include <errno.h>
#include <string.h>

#include "objects/allocate.h"
#include "objects/front_door.h"
#include "os/memory.h"

PRIM_INLINE void *family_malloc(size_t size) {
    return allocate_or(size, front_malloc_medium, front_malloc);
}

PRIM_INLINE void family_free(void *block) {
    if (PRIM_UNLIKELY(!release_to_cache(block))) {
        front_free(block);
    }
}

PRIM_INLINE void family_free_sized(void *block, size_t size) {
    if (PRIM_UNLIKELY(!release_to_cache(block))) { /* the address knows better than the size */
        front_free_sized(block, size);
    }
}

PRIM_INLINE void family_free_aligned_sized(void *block, size_t alignment, size_t size) {
    if (PRIM_UNLIKELY(!release_to_cache(block))) {
        front_free_aligned_sized(block, alignment, size);
    }
}

PRIM_INLINE void *family_calloc(size_t count, size_t size) {
    size_t total;
    if (PRIM_UNLIKELY(__builtin_mul_overflow(count, size, &total))) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = allocate_or(total, allocate_nothing, allocate_nothing);
    return PRIM_LIKELY(block != NULL) ? memset(block, 0, total) : front_calloc(total);
}

PRIM_INLINE void *family_realloc(void *block, size_t size) {
    return front_realloc(block, size);
}

PRIM_INLINE void *family_reallocarray(void *block, size_t count, size_t size,
                                      void *resize(void *block, size_t size)) {
    size_t total;
    if (PRIM_UNLIKELY(__builtin_mul_overflow(count, size, &total))) {
        return fail_allocation(SIZE_MAX); /* a program's own realloc may not be ready for it */
    }
    return resize(block, total);
}

PRIM_INLINE void *family_aligned_alloc(size_t alignment, size_t size) {
    if (PRIM_UNLIKELY(!bits_is_power_of_two(alignment))) {
        errno = EINVAL;
        return NULL;
    }
    return front_allocate(size, alignment, CALL_ALIGNED, __builtin_return_address(0));
}

PRIM_INLINE int family_posix_memalign(void **result, size_t alignment, size_t size) {
    if (PRIM_UNLIKELY(!bits_is_power_of_two(alignment) || alignment % sizeof(void *) != 0)) {
        return EINVAL;
    }
    int saved_errno = errno;
    void *block = front_allocate(size, alignment, CALL_ALIGNED, __builtin_return_address(0));
    errno = saved_errno;
    if (PRIM_UNLIKELY(!block)) {
        return ENOMEM;
    }
    *result = block;
    return 0;
}

PRIM_INLINE void *family_memalign(size_t alignment, size_t size) {
    if (alignment > (size_t)1 << 63) {
        errno = EINVAL;
        return NULL;
    }
    size_t rounded = alignment <= 1 ? 1 : (size_t)1 << (bits_highest(alignment - 1) + 1);
    return front_allocate(size, rounded, CALL_ALIGNED, __builtin_return_address(0));
}

PRIM_INLINE void *family_valloc(size_t size) {
    return front_allocate(size, memory_page_size(), CALL_ALIGNED, __builtin_return_address(0));
}

/* A size too great to be rounded stays what it is, and is refused. */
PRIM_INLINE void *family_pvalloc(size_t size) {
    size_t page = memory_page_size();
    size_t rounded = bits_max(bits_round_up(size, page), page);
    return front_allocate(bits_max(rounded, size), page, CALL_ALIGNED, __builtin_return_address(0));
}

#endif
