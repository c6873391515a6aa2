/*
 * Tells who serves the malloc family in this process: run it with an allocator in LD_PRELOAD.
 * Prints one line for each function, "<name> <file that defines it>", or "-" for the file where
 * nothing defines it. Exit status 1: a block could not be had or lost its contents.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const functions[] = {
    "malloc",         "calloc",        "realloc",  "free",
    "posix_memalign", "aligned_alloc", "memalign", "malloc_usable_size",
    "_Znwm",          "_ZdlPv",
};

static const char *file_of(const char *function) {
    void *address = dlsym(RTLD_DEFAULT, function);
    Dl_info where;
    if (address == NULL) return "-";
    if (dladdr(address, &where) == 0 || where.dli_fname == NULL) return "?";
    return where.dli_fname;
}

int main(void) {
    char *block = malloc(1000);
    if (block == NULL) return 1;
    memset(block, 1, 1000);
    block = realloc(block, 5000);
    if (block == NULL || block[999] != 1) return 1;
    free(block);

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        printf("%s %s\n", functions[i], file_of(functions[i]));
    return 0;
}
