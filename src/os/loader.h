/* loader.h - whose code is calling, the C library's own or somebody else's; and what a name of ours
 * stands for in the libraries behind us. */
#ifndef PRIM_OS_LOADER_H
#define PRIM_OS_LOADER_H

#include "base/compiler.h"

/* Notes where the C library, the dynamic loader and this library lie. Takes a lock of the loader:
 * for constructors only. */
void loader_note_libraries(void);

/* Whether they were found. In a static program they are part of it and cannot be told apart. */
bool loader_knows_libraries(void);

/* Whether the code at this address belongs to one of them. */
bool loader_is_library_code(const void *address);

/* The function that has the name in the libraries behind this one, in that version of glibc's;
 * NULL if there is none. A library that wraps dlsym may lead us back to ourselves; none wraps
 * dlvsym, which this asks. */
void *loader_next(const char *name, const char *version);

#endif
