/* start_constructor.c - how an archive learns that main begins: nearly.
 *
 * A program brings its own __libc_start_main where it is linked statically, so the archives do not
 * stand before it. This constructor has no priority: it comes after all that have one, and among
 * the others where the linker met the archive, which is after the program's own files. */
#include <pthread.h>

#include "objects/maintenance.h"
#include "os/alone.h"

/* Weak references (os/thread.c) do not bring these into a static program. */
__attribute__((used)) static void *const needed[] = {(void *)pthread_create,
                                                     (void *)pthread_attr_setstacksize};

extern char __libc_single_threaded __attribute__((weak));

__attribute__((constructor)) static void note_main(void) {
    alone_learn(&__libc_single_threaded);
    maintenance_note_main();
}
