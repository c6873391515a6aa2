/* foreign.c - see foreign.h. */
#include "objects/foreign.h"

#include <errno.h>

#include "base/atomics.h"
#include "objects/complaint.h"

static _Atomic uint64_t pointers_met; /* (atomic: counter) */

void foreign_release(void *pointer) {
    add_relaxed(&pointers_met, 1);
    complaint_foreign("free", pointer);
}

void *foreign_reallocate(void *pointer, size_t size) {
    (void)size;
    add_relaxed(&pointers_met, 1);
    complaint_foreign("realloc", pointer);
    errno = ENOMEM;
    return NULL;
}

uint64_t foreign_count(void) {
    return load_relaxed(&pointers_met);
}
