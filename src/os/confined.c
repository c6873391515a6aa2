/* confined.c - see confined.h. */
#include "os/confined.h"

_Atomic bool confined;

void confined_begin(void) {
    store_relaxed(&confined, true);
}
