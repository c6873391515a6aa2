/* purge.c - see purge.h. */
#include "pages/purge.h"

#include "base/bits.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/page_heap.h"
#include "settings/options.h"

/* With the lock held: cuts what the page size cannot purge off a BUSY span's ends and puts it
 * back as dirty. Returns NULL when nothing is left. */
static struct span *trim_to_pages(struct span *span) {
    size_t page = bits_max(memory_page_size(), SLICE_SIZE);
    uintptr_t start = bits_round_up(span->address, page);
    uintptr_t end = bits_round_down(span_end(span), page);
    if (start >= end) {
        page_heap_insert(span, SPAN_DIRTY);
        return NULL;
    }
    if (end < span_end(span)) {
        page_heap_insert(page_heap_split(span, (end - span->address) / SLICE_SIZE), SPAN_DIRTY);
    }
    if (start > span->address) {
        struct span *inner = page_heap_split(span, (start - span->address) / SLICE_SIZE);
        page_heap_insert(span, SPAN_DIRTY);
        span = inner;
    }
    return span;
}

/* With the lock held, which it drops around the system call: purges at most slice_count slices of
 * the largest dirty span. Returns how many; 0 when nothing can be purged. */
static size_t purge_one(size_t slice_count) {
    struct span *span = extent_set_largest(&page_heap.dirty);
    if (!span) {
        return 0;
    }
    page_heap_remove(span);
    if (span->slice_count > slice_count) { /* keep the low end: it is reused first */
        struct span *high = page_heap_split(span, span->slice_count - slice_count);
        page_heap_insert(span, SPAN_DIRTY);
        span = high;
    }
    span = trim_to_pages(span);
    if (!span) {
        return 0;
    }
    size_t purged = span->slice_count;
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    bool done = memory_purge((void *)span->address, span_size(span));
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    page_heap_insert(span, done ? SPAN_CLEAN : SPAN_DIRTY);
    return done ? purged : 0;
}

static size_t purge_slices(size_t slice_count) {
    size_t total = 0;
    while (total < slice_count) {
        size_t purged = purge_one(slice_count - total);
        if (purged == 0) {
            break;
        }
        total += purged;
    }
    return total;
}

/* With the lock held: how long the running epoch lasts. Most processes end within one delay; in
 * that time epochs are short, so that these too return what they left behind. */
static uint64_t epoch_ms(uint64_t now) {
    enum { YOUNG_DIVISOR = 8 };
    static uint64_t first_look_ms; /* (lock: PAGE_HEAP) */
    if (first_look_ms == 0) {
        first_look_ms = now;
    }
    bool is_young = now - first_look_ms < options.purge_delay;
    return is_young ? options.purge_delay / YOUNG_DIVISOR : options.purge_delay;
}

void purge_tick(void) {
    if (!options.purge) {
        return;
    }
    uint64_t now = machine_clock_ms();
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    if (now - page_heap.epoch_start_ms >= epoch_ms(now)) {
        size_t idle = page_heap.dirty_low_water;
        page_heap.epoch_start_ms = now;
        page_heap_settle();
        purge_slices(idle);
        page_heap.dirty_low_water = page_heap.dirty.slice_count;
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
}

void purge_free(struct span *span, enum span_state state) {
    /* Both, because small spans are many and the clock costs as much as freeing a large one. */
    enum { SLICES_BETWEEN_LOOKS = (1 << 20) / SLICE_SIZE, FREES_BETWEEN_LOOKS = 16 };
    static _Atomic uint32_t slices_freed; /* (atomic: hint) since the last look at the clock */
    static _Atomic uint32_t frees;        /* (atomic: hint) since then */
    uint32_t slices = load_relaxed(&slices_freed) + (uint32_t)bits_min(span->slice_count, 1 << 20);
    uint32_t count = load_relaxed(&frees) + 1;
    bool is_due = slices >= SLICES_BETWEEN_LOOKS && count >= FREES_BETWEEN_LOOKS;
    store_relaxed(&slices_freed, is_due ? 0 : slices);
    store_relaxed(&frees, is_due ? 0 : count);
    page_heap_free(span, state);
    if (is_due) {
        purge_tick();
    }
}

size_t purge_all(size_t keep_bytes) {
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    page_heap_settle();
    size_t keep = keep_bytes / SLICE_SIZE;
    size_t idle = page_heap.dirty.slice_count > keep ? page_heap.dirty.slice_count - keep : 0;
    size_t purged = purge_slices(idle);
    page_heap.dirty_low_water = page_heap.dirty.slice_count;
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    return purged * SLICE_SIZE;
}
