/* recycle.c - see recycle.h. */
#include "pages/recycle.h"

#include "base/bits.h"
#include "os/memory.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"
#include "pages/sparse.h"

enum {
    RECEIVED_MIN = 64,   /* slices of a span worth the system calls: 1 MiB */
    DONOR_MIN = 8,       /* slices of a span whose pages are worth moving: 128 KiB */
    RECEIVED_MAX = 4096, /* slices moved to one span: 64 MiB; who takes more may not touch it */
    DONORS_MAX = 32,     /* spans that give their pages to one other */
};

static struct lock recycle_lock; /* (lock: RECYCLE) held while donors are BUSY */

struct donation {
    struct span *spans[DONORS_MAX]; /* BUSY */
    unsigned count;
};

/* With the lock held: takes dirty spans of slice_count slices at most in all, the largest first. */
static void collect(struct donation *donation, size_t slice_count) {
    while (donation->count < DONORS_MAX && slice_count >= DONOR_MIN) {
        struct span *span = extent_set_largest(&page_heap.dirty);
        if (!span || span->slice_count < DONOR_MIN) {
            return;
        }
        page_heap_remove(span);
        if (span->slice_count > slice_count) { /* keep the low end: it is reused first */
            struct span *high = page_heap_split(span, span->slice_count - slice_count);
            page_heap_insert(span, SPAN_DIRTY);
            span = high;
        }
        donation->spans[donation->count++] = span;
        slice_count -= span->slice_count;
    }
}

/* Moves the donors' pages if they have many, in few pieces; whoever gave all of them is clean. So
 * is who has hardly any: else such spans would lie between clean ones for long, and new address
 * space be taken in place of both. Returns the bytes moved. */
static size_t move_all(const struct donation *donation, uintptr_t to, enum span_state *states) {
    size_t total = 0;
    for (unsigned i = 0; i < donation->count; i++) {
        const struct span *donor = donation->spans[i];
        size_t size = span_size(donor);
        size_t moved = 0;
        unsigned resident = sparse_samples(donor->address, size);
        if (resident > SPARSE_SAMPLES / 2 && mapping_moves_well(donor->address, size)) {
            moved = mapping_move(donor->address, to + total, size);
        }
        bool is_bare = resident == 0 && mapping_drop(donor->address, size);
        states[i] = is_bare || moved == size ? SPAN_CLEAN : SPAN_DIRTY;
        total += moved;
    }
    return total;
}

size_t recycle_into(struct span *span, size_t first_slice) {
    struct donation donation = {.count = 0};
    enum span_state states[DONORS_MAX];
    size_t wanted = bits_min(span->slice_count - first_slice, RECEIVED_MAX);
    if (wanted < RECEIVED_MIN || !mapping_may_move()) {
        return 0;
    }
    lock_acquire(&recycle_lock, LOCK_RECYCLE);
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    collect(&donation, wanted);
    page_heap_note_low_water();
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    size_t moved = move_all(&donation, span->address + first_slice * SLICE_SIZE, states);
    span->is_zero = span->is_zero && moved == 0;
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    for (unsigned i = 0; i < donation.count; i++) {
        page_heap_insert(donation.spans[i], states[i]);
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    lock_release(&recycle_lock, LOCK_RECYCLE);
    return moved / SLICE_SIZE;
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
