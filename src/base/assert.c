/* assert.c - how the checked flavour reports a broken invariant of its own. */
#include "base/assert.h"

#ifdef PRIM_CHECKED
#include <stdlib.h>
#include <unistd.h>

#include "base/print.h"

void assert_failed(const char *condition, const char *file, int line) {
    char buffer[256];
    struct print out = print_to(buffer, sizeof buffer);
    print_text(&out, "primalloc: internal assertion failed: ");
    print_text(&out, condition);
    print_text(&out, " at ");
    print_text(&out, file);
    print_text(&out, ":");
    print_decimal(&out, (uint64_t)line);
    print_text(&out, "\n");
    ssize_t ignored = write(STDERR_FILENO, buffer, out.length);
    (void)ignored;
    abort();
}
#else
typedef int assert_not_compiled; /* ISO C wants a declaration in every file */
#endif
