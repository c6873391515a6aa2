/* bare.h - freed memory that nobody touched: a program may free what it left as it was, and want as
 * much of zeros again. To clear it would give it pages. */
#ifndef PRIM_PAGES_BARE_H
#define PRIM_PAGES_BARE_H

#include "pages/span.h"

/* For a BUSY span that was DIRTY and shall be all zero: if most of it has no pages, the others go,
 * too, and it is. False where it has to be cleared: mostly, and where nobody has looked. */
bool bare_clear(const struct span *span);

#endif
