/* confined.c - see confined.h. */
#include "os/confined.h"

_Atomic bool confined;

static _Atomic unsigned askers; /* (atomic: confinement) threads between may_ask and asked */

/* Either who confines the process sees the asker, or that one sees that it is confined. */
bool confined_may_ask(void) {
    atomic_fetch_add_explicit(&askers, 1, memory_order_seq_cst);
    bool may = !atomic_load_explicit(&confined, memory_order_seq_cst);
    if (!may) {
        confined_asked();
    }
    return may;
}

void confined_asked(void) {
    atomic_fetch_sub_explicit(&askers, 1, memory_order_release); /* order pair: confinement */
}

void confined_begin(void) {
    atomic_store_explicit(&confined, true, memory_order_seq_cst);
}

bool confined_is_asking(void) {
    return atomic_load_explicit(&askers, memory_order_seq_cst); /* order pair: confinement */
}

void confined_fork_child(void) {
    store_relaxed(&askers, 0);
}
