/* free_run.c - see free_run.h. */
#include "pages/free_run.h"

#include "base/bits.h"
#include "pages/page_heap.h"

struct free_run {
    size_t wanted; /* slices */
    size_t slices;
    size_t clean_slices; /* of these */
    struct span *first;  /* the upper end of it may be all that is in the run */
    uintptr_t start;
    struct span_part fresh;
};

enum {
    LOOKS = 16,      /* dirty spans that are tried, which take the lock's time */
    DIRTY_LEAST = 8, /* slices of one that is worth a look */
};

static uintptr_t end_of(const struct free_run *run) {
    return run->start + run->slices * SLICE_SIZE;
}

/* Takes as much of a free neighbour as is missing. */
static bool add(struct free_run *run, struct span *span) {
    enum span_state state = span ? span_state(span) : SPAN_NONE;
    size_t slices = run->wanted - run->slices;
    if (slices == 0 || (state != SPAN_DIRTY && state != SPAN_CLEAN)) {
        return false;
    }
    slices = bits_min(slices, span->slice_count);
    uintptr_t start = end_of(run);
    if (span->address < run->start) {
        start = run->start - slices * SLICE_SIZE;
        run->start = start;
        run->first = span;
    }
    run->slices += slices;
    if (state == SPAN_CLEAN) {
        run->clean_slices += slices;
        if (slices > run->fresh.slices) {
            run->fresh = (struct span_part){start, slices};
        }
    }
    return true;
}

static bool reaches(struct free_run *run, bool is_aligned) {
    while (add(run, span_of_slice(end_of(run)))) {}
    while (!is_aligned && add(run, span_before(run->start))) {}
    return run->slices == run->wanted && run->clean_slices <= run->slices / 4 * 3;
}

/* About one of the largest dirty spans; an aligned one begins in it. */
static bool find(struct free_run *run, size_t slice_count, size_t alignment) {
    struct span *span = extent_set_largest(&page_heap.dirty);
    for (int looks = LOOKS; looks && span && span->slice_count >= DIRTY_LEAST; looks--) {
        uintptr_t start = bits_round_up(span->address, alignment);
        uintptr_t end = bits_max(start, span_end(span));
        size_t slices = bits_min((end - start) / SLICE_SIZE, slice_count);
        *run = (struct free_run){slice_count, slices, 0, span, start, {0, 0}};
        if (slices && reaches(run, alignment > SLICE_SIZE)) {
            return true;
        }
        span = extent_set_before(&page_heap.dirty, span->slice_count, span->address);
    }
    return false;
}

/* Removes the spans that lie in the run; what the first or the last has outside of it stays. */
static struct span *join(const struct free_run *run) {
    uintptr_t end = end_of(run);
    for (struct span *span = run->first; span;) {
        enum span_state state = span_state(span);
        uintptr_t next = span_end(span);
        page_heap_remove(span);
        if (span->address < run->start) {
            struct span *inside = page_heap_split(span, (run->start - span->address) / SLICE_SIZE);
            page_heap_insert(span, state);
            span = inside;
        }
        if (next > end) {
            page_heap_insert(page_heap_split(span, (end - span->address) / SLICE_SIZE), state);
        }
        span = next < end ? span_of_slice(next) : NULL;
    }
    struct span *joint = span_create(run->start, run->slices, SPAN_BUSY);
    joint->is_zero = false;
    return joint;
}

struct span *free_run_take(size_t slice_count, size_t alignment, bool is_refused,
                           struct span_part *fresh) {
    struct free_run run;
    if (!find(&run, slice_count, alignment) ||
        !page_heap_may_touch(run.clean_slices, &is_refused)) {
        return NULL;
    }
    *fresh = run.fresh;
    struct span *span = join(&run);
    limits_note_resident(page_heap_resident_bytes());
    return span;
}
