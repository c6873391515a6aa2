/* assert.c - how the checked flavour reports a broken invariant of its own. */
#include "base/assert.h"

#ifdef PRIM_CHECKED
#include <stdlib.h>
#include <unistd.h>

#include "base/print.h"

void assert_failed(const char *condition, const char *file, int line) {
    char buffer[256];
    struct print out = print_to(buffer, sizeof buffer);
    print_format(&out, "primalloc: internal assertion failed: %s at %s:%u\n", condition, file,
                 (unsigned)line);
    ssize_t ignored = write(STDERR_FILENO, buffer, out.length);
    (void)ignored;
    abort();
}
#else
typedef int assert_not_compiled; /* ISO C wants a declaration in every file */
#endif
