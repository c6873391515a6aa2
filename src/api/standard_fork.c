/* standard_fork.c - so that our handlers of fork are registered before anybody else's (fork.h).
 *
 * The constructors of the program's libraries run before those of a library that is preloaded, and
 * call pthread_atfork, which is a part of each of them and calls this. Weak: in a static program
 * libc has its own, and constructors run in the order of their priorities. */
#include <errno.h>

#include "api/fork.h"
#include "base/compiler.h"
#include "os/loader.h"

typedef void fork_handler(void);
typedef int register_function(fork_handler *prepare, fork_handler *parent, fork_handler *child,
                              void *library);

register_function __register_atfork __attribute__((weak));

PRIM_EXPORT int __register_atfork(fork_handler *prepare, fork_handler *parent, fork_handler *child,
                                  void *library) {
    register_function *next =
        (register_function *)loader_next("__register_atfork", PRIM_ATFORK_GLIBC);
    fork_register();
    return next ? next(prepare, parent, child, library) : ENOMEM;
}
