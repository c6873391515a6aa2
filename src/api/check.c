/* check.c - the program's own look at its blocks. */
#include "objects/thread_cache.h"
#include "primalloc.h"
#include "watch/check.h"

PRIM_EXPORT size_t prim_check_all(void) {
    return thread_cache_is_inside() ? 0 : check_all("by prim_check_all");
}
