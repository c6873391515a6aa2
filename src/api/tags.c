/* tags.c - the thread tags of primalloc.h. */
#include "objects/tag.h"

#include <errno.h>

#include "api/family.h"
#include "primalloc.h"

PRIM_EXPORT bool prim_tag_push(const char *name) {
    bool is_done = tag_push(name);
    if (!is_done) {
        errno = ENOMEM;
    }
    return is_done;
}

PRIM_EXPORT void prim_tag_pop(void) {
    tag_pop();
}

PRIM_EXPORT const char *prim_tag_current(void) {
    const char *name = tag_name(tag_now());
    return *name ? name : NULL;
}
