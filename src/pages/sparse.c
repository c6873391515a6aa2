/* sparse.c - see sparse.h. */
#include "pages/sparse.h"

#include "os/memory.h"
#include "settings/options.h"

enum { BEGINS_AT = 13, ENDS_BELOW = 6 }; /* spans without a page, of the last 16 looked at */
enum { DOUBTS = 32 };                    /* looks that come soon once it is on */
enum { SURE_AFTER = 16 };                /* looks in a row that met a page */

_Atomic bool sparse_is_on;
_Atomic bool sparse_look_is_due;
_Atomic unsigned sparse_doubts;
_Atomic unsigned sparse_unsure = SURE_AFTER;

/* (atomic: hint) A bit for each of the last looks, the newest lowest: there was no page. */
static _Atomic uint16_t looks;

static bool has_page(uintptr_t address) {
    size_t page = memory_page_size();
    return memory_samples((void *)bits_round_down(address, page), page, page) ||
           load_relaxed(&memory_is_blind);
}

unsigned sparse_samples(uintptr_t address, size_t size) {
    size_t part = size / SPARSE_SAMPLES;
    unsigned resident = 0;
    for (size_t i = 0; i < SPARSE_SAMPLES; i++) {
        resident += has_page(address + i * part + part / 2);
    }
    return resident;
}

static bool is_middle_bare(const struct span *span) {
    return !options.hardened && !has_page(span->address + span_size(span) / 2);
}

bool sparse_is_bare(const struct span *span) {
    return is_middle_bare(span) && sparse_samples(span->address, span_size(span)) <= 1;
}

PRIM_COLD void sparse_look(const struct span *span) {
    store_relaxed(&sparse_look_is_due, false);
    bool is_bare = is_middle_bare(span);
    uint16_t now = (uint16_t)(load_relaxed(&looks) << 1 | is_bare);
    unsigned unsure = load_relaxed(&sparse_unsure);
    bool was_on = load_relaxed(&sparse_is_on);
    bool is_on = bits_count(now) >= (was_on ? ENDS_BELOW : BEGINS_AT);
    unsigned left = load_relaxed(&sparse_doubts);
    unsigned doubts = was_on ? left - (left != 0) : DOUBTS;
    store_relaxed(&looks, now);
    store_relaxed(&sparse_is_on, is_on);
    store_relaxed(&sparse_unsure, is_bare ? SURE_AFTER : unsure - (unsure != 0));
    store_relaxed(&sparse_doubts, is_on ? doubts : 0);
}
