/* free_run.c - see free_run.h. */
#include "pages/free_run.h"

#include "pages/page_heap.h"

struct free_run {
    uintptr_t start;
    size_t slices;
    size_t clean_slices;
};

enum {
    LOOKS = 16,      /* dirty spans that are tried, which take the lock's time */
    DIRTY_LEAST = 8, /* slices of one that is worth a look */
};

static bool add(struct free_run *run, const struct span *span) {
    enum span_state state = span ? span_state(span) : SPAN_NONE;
    if (state != SPAN_DIRTY && state != SPAN_CLEAN) {
        return false;
    }
    run->start = span->address < run->start ? span->address : run->start;
    run->slices += span->slice_count;
    run->clean_slices += state == SPAN_CLEAN ? span->slice_count : 0;
    return true;
}

static uintptr_t end_of(const struct free_run *run) {
    return run->start + run->slices * SLICE_SIZE;
}

static bool reaches(struct free_run *run, size_t slice_count) {
    while (run->slices < slice_count && add(run, span_of_slice(end_of(run)))) {}
    while (run->slices < slice_count && add(run, span_before(run->start))) {}
    return run->slices >= slice_count && run->clean_slices <= run->slices / 2;
}

/* About one of the largest dirty spans; at most half of it clean. */
static bool find(struct free_run *run, size_t slice_count) {
    const struct span *span = extent_set_largest(&page_heap.dirty);
    for (int looks = LOOKS; looks && span && span->slice_count >= DIRTY_LEAST; looks--) {
        *run = (struct free_run){span->address, span->slice_count, 0};
        if (reaches(run, slice_count)) {
            return true;
        }
        span = extent_set_before(&page_heap.dirty, span->slice_count, span->address);
    }
    return false;
}

static struct span *join(const struct free_run *run) {
    for (uintptr_t at = run->start; at < end_of(run);) {
        struct span *span = span_of_slice(at);
        at = span_end(span);
        page_heap_remove(span);
    }
    return page_heap_insert(span_create(run->start, run->slices, SPAN_BUSY), SPAN_DIRTY);
}

struct span *free_run_take(size_t slice_count, bool is_refused) {
    struct free_run run;
    if (!find(&run, slice_count) || !page_heap_may_touch(run.clean_slices, &is_refused)) {
        return NULL;
    }
    struct span *span = join(&run);
    limits_note_resident(page_heap_resident_bytes());
    return span;
}
