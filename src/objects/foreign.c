/* foreign.c - see foreign.h. */
#include "objects/foreign.h"

#include <errno.h>

#include "base/atomics.h"
#include "objects/complaint.h"
#include "objects/reserve.h"
#include "os/libc_heap.h"

static _Atomic uint64_t pointers_met; /* (atomic: counter) */

static void meet(const char *call, const void *pointer) {
    add_relaxed(&pointers_met, 1);
    complaint_foreign(call, pointer);
}

void foreign_release(void *pointer) {
    if (reserve_release(pointer)) {
        return;
    }
    if (libc_heap_usable_size(pointer)) {
        int saved_errno = errno;
        libc_heap_release(pointer);
        errno = saved_errno;
    } else {
        meet("free", pointer);
    }
}

void *foreign_reallocate(void *pointer, size_t size) {
    if (libc_heap_usable_size(pointer)) {
        return libc_heap_reallocate(pointer, size);
    }
    if (reserve_size(pointer)) {
        return reserve_move(pointer, size);
    }
    meet("realloc", pointer);
    errno = ENOMEM;
    return NULL;
}

size_t foreign_usable_size(const void *pointer) {
    size_t size = reserve_size(pointer);
    return size ? size : libc_heap_usable_size(pointer);
}

uint64_t foreign_count(void) {
    return load_relaxed(&pointers_met);
}
