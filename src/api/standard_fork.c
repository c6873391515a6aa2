/* standard_fork.c - so that our handlers of fork are registered before anybody else's (fork.h).
 *
 * The constructors of the program's libraries run before those of a library that is preloaded, and
 * call pthread_atfork, which is a part of each of them and calls this. Weak: in a static program
 * libc has its own, and constructors run in the order of their priorities. */
#include <dlfcn.h>
#include <errno.h>

#include "api/fork.h"
#include "base/compiler.h"

#pragma weak dlvsym /* not in static programs, where nobody comes here */

typedef void fork_handler(void);
typedef int register_function(fork_handler *prepare, fork_handler *parent, fork_handler *child,
                              void *library);

register_function __register_atfork __attribute__((weak));

PRIM_EXPORT int __register_atfork(fork_handler *prepare, fork_handler *parent, fork_handler *child,
                                  void *library) {
    /* A library that wraps dlsym may lead us back to ourselves; none wraps dlvsym. */
    register_function *next =
        dlvsym ? (register_function *)dlvsym(RTLD_NEXT, "__register_atfork", PRIM_ATFORK_GLIBC)
               : NULL;
    fork_register();
    return next ? next(prepare, parent, child, library) : ENOMEM;
}
