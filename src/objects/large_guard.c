/* large_guard.c - see large_guard.h. */
#include "objects/large_guard.h"

#include "base/bits.h"
#include "pages/limits.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"

enum {
    KEPT_COUNT = 16,
    KEPT_SIZE = 8 << 20,      /* bytes of them all, or ... */
    KEPT_ONE_SIZE = 64 << 20, /* ... of a single one */
    KEPT_DIVISOR = 8,         /* so much of the heap's pages may be kept while others are needed */
    FIT_DIVISOR = 8,          /* a block may get a span that is by such a part too long */
    COUNT_BITS = 30, /* of a kept span: its number of slices, and above the number of its first */
};

static _Atomic uint64_t kept[KEPT_COUNT]; /* (atomic: kept) */
static _Atomic size_t kept_slices;        /* (atomic: hint) */
static _Atomic unsigned kept_next;        /* (atomic: hint) the place to be taken next */

void large_guard_begin(struct span *span) {
    uintptr_t guard = span_end(span) - SLICE_SIZE;
    span->has_guard = options.hardened && mapping_forbid(guard);
    if (span->has_guard) {
        page_heap_cut(span, span->slice_count - 1);
    }
}

void large_guard_end(struct span *span) {
    if (PRIM_UNLIKELY(span->has_guard) && mapping_allow(span_end(span))) {
        page_heap_cut(span, (size_t)span->slice_count + 1);
    }
    span->has_guard = false;
}

static size_t count_of(uint64_t entry) {
    return entry & (((uint64_t)1 << COUNT_BITS) - 1);
}

static struct span *span_of_entry(uint64_t entry) {
    return span_of_slice((uintptr_t)(entry >> COUNT_BITS) << SLICE_SHIFT);
}

static bool fits(uint64_t entry, size_t slices, size_t alignment) {
    uintptr_t address = (uintptr_t)(entry >> COUNT_BITS) << SLICE_SHIFT;
    return slices == LARGE_GUARD_ANY ||
           (count_of(entry) - slices <= slices / FIT_DIVISOR && (address & (alignment - 1)) == 0);
}

/* NULL if somebody else was quicker. */
static struct span *take_out(_Atomic uint64_t *place, uint64_t entry) {
    if (!compare_exchange_acquire(place, &entry, 0)) { /* order pair: kept */
        return NULL;
    }
    subtract_relaxed(&kept_slices, count_of(entry));
    return span_of_entry(entry);
}

PRIM_COLD struct span *large_guard_find(size_t slices, size_t alignment) {
    struct span *span = NULL;
    for (unsigned i = 0; i < KEPT_COUNT && !span; i++) {
        uint64_t entry = load_relaxed(&kept[i]);
        if (entry && fits(entry, slices, bits_max(alignment, 1))) {
            span = take_out(&kept[i], entry);
        }
    }
    return span;
}

PRIM_COLD struct span *large_guard_keep(struct span *span) {
    size_t count = span->slice_count;
    size_t others = load_relaxed(&kept_slices);
    size_t most = (others ? KEPT_SIZE : KEPT_ONE_SIZE) / SLICE_SIZE;
    if (!span->has_guard || span->leaves_at_free || limits_are_pressed() || others + count > most) {
        return span;
    }
    unsigned place = add_relaxed(&kept_next, 1) % KEPT_COUNT;
    uint64_t entry = (uint64_t)(span->address >> SLICE_SHIFT) << COUNT_BITS | count;
    add_relaxed(&kept_slices, count);
    entry = exchange_both(&kept[place], entry); /* order pair: kept */
    subtract_relaxed(&kept_slices, count_of(entry));
    return entry ? span_of_entry(entry) : NULL;
}

PRIM_COLD bool large_guard_is_excessive(void) {
    return load_relaxed(&kept_slices) > page_heap_resident_bytes() / SLICE_SIZE / KEPT_DIVISOR;
}
