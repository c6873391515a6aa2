/* figures.h - figures on their way into a struct of the program's, which may be of another size. */
#ifndef PRIM_API_FIGURES_H
#define PRIM_API_FIGURES_H

#include <string.h>

#include "base/bits.h"

/* As many bytes as both have, zeros behind them. Either may be NULL that has none. */
static inline void figures_copy(void *to, size_t to_size, const void *from, size_t from_size) {
    size_t known = bits_min(to_size, from_size);
    if (known) {
        memcpy(to, from, known);
    }
    if (to_size > known) {
        memset((char *)to + known, 0, to_size - known);
    }
}

#endif
