/* bare.c - see bare.h. */
#include "pages/bare.h"

#include "base/bits.h"
#include "os/memory.h"
#include "pages/mapping.h"
#include "pages/sparse.h"
#include "settings/options.h"

/* A look takes as long as clearing some 16 to 64 KiB. */
enum {
    LOOK_LEAST = 4,    /* slices that are worth one if the last span looked at was bare, ... */
    LOOK_RARELY = 32,  /* ... and else one in so many; */
    LOOK_ALWAYS = 512, /* so many are each time */
};

static _Atomic bool was_bare;           /* (atomic: hint) the last span that was looked at */
static _Atomic unsigned unlikely_count; /* (atomic: counter) spans that came while it was not */

static bool is_worth_a_look(size_t slice_count) {
    return slice_count >= LOOK_ALWAYS ||
           (slice_count >= LOOK_LEAST &&
            (load_relaxed(&was_bare) || add_relaxed(&unlikely_count, 1) % LOOK_RARELY == 0));
}

/* Whether at most half of it has pages. */
static bool is_bare(const struct span *span) {
    size_t size = span_size(span);
    return span->slice_count >= LOOK_ALWAYS
               ? sparse_samples(span->address, size) <= SPARSE_SAMPLES / 2
               : memory_samples((void *)span->address, size, SLICE_SIZE) <= span->slice_count / 2;
}

bool bare_clear(const struct span *span) {
    bool is_whole_pages = ((span->address | span_size(span)) & (memory_page_size() - 1)) == 0;
    if (!options.purge || !is_whole_pages || load_relaxed(&memory_is_blind) ||
        !is_worth_a_look(span->slice_count)) {
        return false;
    }
    bool is_bare_now = is_bare(span);
    store_relaxed(&was_bare, is_bare_now);
    return is_bare_now && mapping_drop(span->address, span_size(span));
}
