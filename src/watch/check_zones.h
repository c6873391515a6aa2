/* check_zones.h - the red zones around a block and what fills it once freed.
 *
 *     start of the plain block
 *     | front: a zone at its end | the program's block | zone, to the plain block's end |
 *
 * Lock: CHECKS, held by the caller. */
#ifndef PRIM_WATCH_CHECK_ZONES_H
#define PRIM_WATCH_CHECK_ZONES_H

#include "watch/check.h"

enum {
    ZONE_SIZE = 16,            /* before a block, and the least behind it */
    ZONE_BEHIND_MAX = 64,      /* of what is there behind it, so much is looked at */
    FILLED_SIZE_MAX = 1 << 16, /* of a freed block, so much is filled */
};

void check_zones_write(const struct check_record *record, size_t plain_size);

/* FAULT_NONE, or which zone was written to and the address of a byte. Mends the zone. */
enum check_fault check_zones_look(const struct check_record *record, size_t plain_size,
                                  uintptr_t *changed);

/* The same for a freed block: fills it, and looks at most at so many bytes of it. */
void check_zones_fill_freed(const struct check_record *record);
enum check_fault check_zones_look_freed(const struct check_record *record, size_t most,
                                        uintptr_t *changed);

#endif
