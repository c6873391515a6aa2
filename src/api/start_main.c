/* start_main.c - how the shared library learns that main begins.
 *
 * Constructors run before it, in an order that nobody promises; the program's start code then calls
 * libc's __libc_start_main with the address of main. Ours stands before that one, hands it a main
 * of our own, and is gone from the stack, as is that main: both end in a jump. glibc gives the name
 * two versions, 2.2.5 and 2.34, of one function: a program older than 2.34 passes its
 * constructors in the fourth word, a newer one passes NULL. */
#include <dlfcn.h>
#include <unistd.h>

#include "objects/maintenance.h"
#include "objects/thread_cache.h"
#include "os/alone.h"
#include "os/lock.h"
#include "os/module.h"
#include "os/process.h"
#include "os/start.h"

const bool module_is_ours_alone = true;

start_function __libc_start_main;

static main_function *program_main;
static struct start_table own_table; /* where it has one: the program's, with our main */

/* A handler that interrupts whoever holds a lock must find the thread inside. Where a thread has
 * ended, and in our own, there are none. */
static bool may_take_locks(void) {
    return thread_cache_is_inside() || thread_cache_has_ended();
}

static int begin(int argc, char **argv, char **environment) {
    LOCK_DEMAND(may_take_locks);
    maintenance_note_main();
    return program_main(argc, argv, environment);
}

/* A library that wraps dlsym may lead us back to ourselves: then libc is asked by name. */
static start_function *next_start(bool is_second_try) {
    if (!is_second_try) {
        return (start_function *)dlsym(RTLD_NEXT, "__libc_start_main");
    }
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return libc ? (start_function *)dlsym(libc, "__libc_start_main") : NULL;
}

PRIM_EXPORT int __libc_start_main(void *first, void *second, void *third, void *fourth, void *fifth,
                                  struct start_table *sixth, void *seventh) {
    main_function *theirs = START_HAS_TABLE ? sixth->main : (main_function *)first;
    start_function *next = next_start(theirs == begin);
    if (!next) {
        process_complain("cannot find libc's __libc_start_main", "");
        _exit(127);
    }
    if (theirs != begin) {
        program_main = theirs;
        alone_learn(dlsym(RTLD_DEFAULT, "__libc_single_threaded"));
    }
    if (START_HAS_TABLE) {
        own_table = *sixth;
        own_table.main = begin;
        return next(first, second, third, fourth, fifth, &own_table, seventh);
    }
    return next((void *)begin, second, third, fourth, fifth, sixth, seventh);
}
