/* check.c - the program's own look at its blocks. */
#include "primalloc.h"
#include "watch/check.h"

PRIM_EXPORT size_t prim_check_all(void) {
    return check_all("by prim_check_all");
}
