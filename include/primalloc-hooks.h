/* primalloc-hooks.h - the hooks of glibc before 2.34, which its <malloc.h> no longer declares.
 *
 * A hook that is not NULL is called instead of the function, with where the call came from. A hook
 * that allocates puts the old value back while it does. Threads share them without a lock: set them
 * before there are several. calloc clears what __malloc_hook gave. */
#ifndef PRIMALLOC_HOOKS_H
#define PRIMALLOC_HOOKS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

extern void *(*volatile __malloc_hook)(size_t size, const void *caller);
extern void *(*volatile __realloc_hook)(void *block, size_t size, const void *caller);
extern void *(*volatile __memalign_hook)(size_t alignment, size_t size, const void *caller);
extern void (*volatile __free_hook)(void *block, const void *caller);

/* Called once, when the library starts, if the program defines it. */
extern void (*volatile __malloc_initialize_hook)(void);

/* So that they are called from the first one on, even in a library that dlopen loads. */
__attribute__((weak)) void __malloc_hooks_are_used(void);
__attribute__((constructor)) static void prim_hooks_tell(void) {
    if (__malloc_hooks_are_used) {
        __malloc_hooks_are_used();
    }
}

#ifdef __cplusplus
}
#endif

#endif
