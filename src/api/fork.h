/* fork.h - the library's part in fork.
 *
 * fork runs what was registered last first: who registers first takes its locks last, as glibc's
 * malloc does, when all other handlers have allocated, freed, and waited for their locks. */
#ifndef PRIM_API_FORK_H
#define PRIM_API_FORK_H

/* Once; further calls do nothing. */
void fork_register(void);

#endif
