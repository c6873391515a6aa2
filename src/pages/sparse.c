/* sparse.c - see sparse.h. */
#include "pages/sparse.h"

#include "os/memory.h"
#include "settings/options.h"

enum { BEGINS_AT = 13, ENDS_BELOW = 6 }; /* spans without a page, of the last 16 looked at */

_Atomic bool sparse_is_on;
_Atomic bool sparse_look_is_due;

/* (atomic: hint) A bit for each of the last looks, the newest lowest: there was no page. */
static _Atomic uint16_t looks;

unsigned sparse_samples(const struct span *span) {
    size_t part = span_size(span) / SPARSE_SAMPLES;
    unsigned resident = 0;
    for (size_t i = 0; i < SPARSE_SAMPLES; i++) {
        uintptr_t page = bits_round_down(span->address + i * part + part / 2, memory_page_size());
        resident += memory_has_pages((void *)page, memory_page_size());
    }
    return resident;
}

PRIM_COLD void sparse_look(const struct span *span) {
    store_relaxed(&sparse_look_is_due, false);
    uintptr_t middle = bits_round_down(span->address + span_size(span) / 2, memory_page_size());
    bool is_bare = !memory_has_pages((void *)middle, memory_page_size());
    uint16_t now = (uint16_t)(load_relaxed(&looks) << 1 | is_bare);
    unsigned least = load_relaxed(&sparse_is_on) ? ENDS_BELOW : BEGINS_AT;
    store_relaxed(&looks, now);
    store_relaxed(&sparse_is_on, !options.hardened && bits_count(now) >= least);
}
