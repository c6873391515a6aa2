/* start_constructor.c - how an archive learns that main begins, nearly; and that it stays.
 *
 * A program brings its own __libc_start_main where it is linked statically, so the archives do not
 * stand before it. This constructor has no priority: it comes after all that have one, and among
 * the others where the linker met the archive, which is after the program's own files. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include "objects/maintenance.h"
#include "os/alone.h"
#include "os/module.h"

const bool module_is_ours_alone = false;

/* Weak references (os/thread.c) do not bring these into a static program. */
__attribute__((used)) static void *const needed[] = {(void *)pthread_create,
                                                     (void *)pthread_attr_setstacksize};

extern char __libc_single_threaded __attribute__((weak));

#pragma weak dlsym /* not in static programs; and dlopen by its name would get a linker's warning */

typedef void *object_opener(const char *file, int mode);

/* Where the linker put the header of what we are a part of. */
extern const char __ehdr_start[] __attribute__((weak, visibility("hidden")));

static int find_own(struct dl_phdr_info *info, size_t size, void *name) {
    (void)size;
    bool is_own = info->dlpi_addr == (uintptr_t)__ehdr_start;
    if (is_own) {
        *(const char **)name = info->dlpi_name;
    }
    return is_own;
}

/* Threads have a key whose destructor lies here, and one may be ours: dlclose of a plugin that
 * holds the archive must leave its code in place. The shared library is linked so. */
static void stay(void) {
    const char *name = NULL;
    dl_iterate_phdr(find_own, &name);
    if (dlsym && name && name[0]) { /* the program itself has no name */
        object_opener *open = (object_opener *)dlsym(RTLD_DEFAULT, "dlopen");
        if (open) {
            open(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        }
    }
}

__attribute__((constructor)) static void note_main(void) {
    alone_learn(&__libc_single_threaded);
    maintenance_note_main();
    stay();
}
