/* start_dlopen.c - plugins that their host opens with RTLD_DEEPBIND, in the shared library.
 *
 * Such a plugin finds libc's malloc and free before ours. But libc itself calls ours, so that what
 * strdup gave the plugin is a block of ours, and libc's free aborts when it gets that. Hence the
 * flag is left out, unless option deepbind keeps it. libc looks for a library where its caller's
 * rpath says: ours goes on by a jump and is not the caller. */
#include <dlfcn.h>
#include <stddef.h>

#include "base/compiler.h"
#include "settings/options.h"

typedef void *open_function(const char *file, int mode);

/* A library that wraps dlsym may lead us back to ourselves; none wraps dlvsym. */
static open_function *find_next(void) {
    void *found = dlsym(RTLD_NEXT, "dlopen");
    if (found == (void *)dlopen) {
        found = dlvsym(RTLD_NEXT, "dlopen", PRIM_FIRST_GLIBC);
    }
    return (open_function *)found;
}

/* Where there is none behind us, dlerror tells what the search for it said. */
PRIM_EXPORT void *dlopen(const char *file, int mode) {
    open_function *next = find_next();
    return next ? next(file, options.deepbind ? mode : mode & ~RTLD_DEEPBIND) : NULL;
}
