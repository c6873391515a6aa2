/* recycle.c - see recycle.h. */
#include "pages/recycle.h"

#include "base/bits.h"
#include "os/memory.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "pages/returned.h"
#include "pages/sparse.h"
#include "settings/options.h"

enum {
    RECEIVED_MIN = 32,     /* slices worth the system calls: 512 KiB */
    DONOR_MIN = 8,         /* slices of a span whose pages are worth moving: 128 KiB */
    RECEIVED_MAX = 4096,   /* slices that give way to one span: 64 MiB; who takes more may not
                              touch it */
    DONORS_MAX = 32,       /* spans that they lie in */
    NEEDED_MOST = 1 << 20, /* bytes needed again in an epoch: then what does not move stays */
};

static struct lock recycle_lock; /* (lock: RECYCLE) held while donors are BUSY */

/* Of the smallest dirty span that has so many slices, as their pages are likely to be in one piece,
 * or else of the largest, as many as it has; BUSY. NULL if it has few. */
static struct span *take_donor(size_t slice_count) {
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    struct span *span = extent_set_best_fit(&page_heap.dirty, slice_count);
    span = span ? span : extent_set_largest(&page_heap.dirty);
    if (span && span->slice_count < DONOR_MIN) {
        span = NULL;
    }
    if (span) {
        page_heap_remove(span);
        if (span->slice_count > slice_count) { /* keep the low end: it is reused first */
            struct span *high = page_heap_split(span, span->slice_count - slice_count);
            page_heap_insert(span, SPAN_DIRTY);
            span = high;
        }
        page_heap_note_low_water();
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    return span;
}

/* False where the program has asked to keep free pages, has locked them, or needs many again. */
static bool drop(const struct span *donor) {
    if (!options_return_idle() || option_now(top_pad) || purge_needed_bytes() > NEEDED_MOST) {
        return false;
    }
    returned_note(donor->address, span_end(donor));
    return mapping_drop(donor->address, span_size(donor));
}

/* Moves a donor's pages if it has many, in few pieces; returns bytes. */
static size_t move(const struct span *donor, uintptr_t to) {
    size_t size = span_size(donor);
    bool is_worth_it = sparse_samples(donor->address, size) > SPARSE_SAMPLES / 2 &&
                       mapping_moves_well(donor->address, size);
    return is_worth_it ? mapping_move(donor->address, to, size) : 0;
}

size_t recycle_into(struct span *span, struct span_part part) {
    size_t total = 0; /* bytes moved */
    size_t left = bits_min(part.slices, RECEIVED_MAX);
    if (left < RECEIVED_MIN || !options.moves || memory_page_size() > SLICE_SIZE) {
        return 0; /* part of a page may be somebody's */
    }
    lock_acquire(&recycle_lock, LOCK_RECYCLE);
    for (unsigned i = 0; i < DONORS_MAX && left >= DONOR_MIN; i++) {
        struct span *donor = take_donor(left);
        if (!donor) {
            break;
        }
        size_t moved = move(donor, part.start + total);
        bool is_gone = moved == span_size(donor) || drop(donor);
        left = is_gone ? left - donor->slice_count : 0; /* else it would be found again */
        total += moved;
        lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
        page_heap_insert(donor, is_gone ? SPAN_CLEAN : SPAN_DIRTY);
        lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    }
    span->is_zero = span->is_zero && total == 0;
    lock_release(&recycle_lock, LOCK_RECYCLE);
    return total / SLICE_SIZE;
}

void recycle_wait(void) {
    lock_acquire(&recycle_lock, LOCK_RECYCLE);
    lock_release(&recycle_lock, LOCK_RECYCLE);
}

void recycle_fork_prepare(void) {
    lock_acquire_unranked(&recycle_lock);
}

void recycle_fork_parent(void) {
    lock_release_unranked(&recycle_lock);
}

void recycle_fork_child(void) {
    lock_reset(&recycle_lock);
}
