/* symbol_file.h - names of functions, read from the file of a program or library.
 *
 * Slow and simple: for reports, outside of locks. */
#ifndef PRIM_OS_SYMBOL_FILE_H
#define PRIM_OS_SYMBOL_FILE_H

#include "os/module.h"

enum { SYMBOL_NAME_SIZE = 1024 }; /* C++ has names of some hundred letters */

struct symbol {
    /* As the linker has it, terminated, cut off where it does not fit. */
    char name[SYMBOL_NAME_SIZE];
    uintptr_t offset; /* of the address in the function */
};

/* The path of a module, terminated, and its length. The program's own is not in the loader's list:
 * the system is asked for it. Others may be relative: to where the process is by now. */
size_t symbol_file_path(const struct module *module, char *path, size_t size);

/* Whether this is what loaders are called. */
bool symbol_file_is_loader(const char *path);

/* False if the file is gone or does not tell. */
bool symbol_find(const struct module *module, uintptr_t address, struct symbol *symbol);

#endif
