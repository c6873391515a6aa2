/* leaks.c - prim_leak_*. */
#include <errno.h>

#include "objects/thread_cache.h"
#include "primalloc.h"
#include "settings/options.h"
#include "watch/leak.h"
#include "watch/profile.h"
#include "watch/profile_exact.h"

PRIM_EXPORT long prim_leak_check(void) {
    int64_t leaked = options.leak_check && !thread_cache_is_inside() ? leak_check() : -1;
    if (leaked < 0) {
        errno = ENOTSUP;
    }
    return (long)leaked;
}

PRIM_EXPORT void prim_leak_ignore(const void *block) {
    if (options.leak_check && !thread_cache_is_inside()) {
        profile_ignore(block);
    }
}

PRIM_EXPORT void prim_leak_disable(void) {
    if (options.leak_check) {
        profile_exact_ignore_begin();
    }
}

PRIM_EXPORT void prim_leak_enable(void) {
    if (options.leak_check) {
        profile_exact_ignore_end();
    }
}
