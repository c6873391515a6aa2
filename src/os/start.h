/* start.h - where a program's start code tells libc's __libc_start_main what main is.
 *
 * It passes seven words. The first is main; but on POWER the sixth is the address of a table that
 * has main behind a word, and the first is main's argument. */
#ifndef PRIM_OS_START_H
#define PRIM_OS_START_H

#include "base/compiler.h"

typedef int main_function(int argc, char **argv, char **environment);

struct start_table {
    void *unused;
    main_function *main;
    void *constructors;
    void *destructors;
};

typedef int start_function(void *first, void *second, void *third, void *fourth, void *fifth,
                           struct start_table *sixth, void *seventh);

#if defined(__powerpc64__)
enum { START_HAS_TABLE = true };
#else
enum { START_HAS_TABLE = false };
#endif

#endif
