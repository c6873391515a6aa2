/* large.c - see large.h. */
#include "objects/large.h"

#include <string.h>

#include "base/bits.h"
#include "objects/large_guard.h"
#include "objects/sampler.h"
#include "objects/size_class.h"
#include "objects/threshold.h"
#include "pages/bare.h"
#include "pages/huge.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"
#include "pages/purge.h"
#include "pages/recycle.h"
#include "pages/sparse.h"

enum {
    MOVE_SIZE_MIN = 128 * 1024, /* copying less is quicker than moving pages */
    GROWTH_DIVISOR = 4,         /* a growing block finds room for a quarter more behind it */
};

#define ALIGNMENT_MAX ((size_t)64 << 30)

/* 0 when the size is impossible. */
static size_t slices_for(size_t size) {
    return size > PTRDIFF_MAX - SLICE_SIZE ? 0 : (size + SLICE_SIZE - 1) / SLICE_SIZE;
}

size_t large_count(void) {
    return load_relaxed(&span_levels[CLASS_LARGE].count);
}

size_t large_peak_bytes(void) {
    return (size_t)load_relaxed(&span_levels[CLASS_LARGE].slice_peak) * SLICE_SIZE;
}

size_t large_total_count(void) {
    return load_relaxed(&span_levels[CLASS_LARGE].total);
}

/* How many slices a block's span has to begin with. */
static size_t span_slices(size_t size) {
    size_t slices = slices_for(size);
    return slices ? slices + large_guard_slices() : 0;
}

/* Announces a new block. */
static void publish(struct span *span, size_t size) {
    threshold_begin(span, size);
    span->sampled = SPAN_UNSAMPLED;
    span_publish_large(span, CLASS_LARGE);
}

/* To the page heap, as CLEAN if its pages are gone. */
static PRIM_COLD void give(struct span *span, enum span_state state) {
    large_guard_end(span);
    purge_free(span, threshold_end(span, state));
}

/* Frees a span's end, as CLEAN only if never touched. */
static PRIM_NOINLINE void shrink(struct span *span, size_t slices, enum span_state end_state) {
    page_heap_cut(span, slices);
    purge_free(span_of_heap_slice(span_end(span)), end_state);
}

/* The pages of a guard are there, but for the one that was forbidden: it goes its own way. */
static PRIM_COLD void part_from_guard(struct span *span) {
    size_t slices = span->slice_count;
    large_guard_end(span);
    if (span->slice_count > slices) {
        shrink(span, slices, SPAN_DIRTY);
    }
}

PRIM_COLD void large_trim(void) {
    for (struct span *span = large_guard_evict(); span; span = large_guard_evict()) {
        give(span, SPAN_DIRTY);
    }
}

/* Before the page heap is asked for more. */
static PRIM_COLD void trim_excess(void) {
    if (options.hardened && large_guard_is_excessive()) {
        large_trim();
    }
}

/* A span with its guard, of a block that has ended, or NULL: then there shall be room for it. */
static PRIM_COLD struct span *take_kept(size_t size, size_t alignment, bool *is_zero) {
    struct span *span = large_guard_find(slices_for(size), alignment);
    if (!span) {
        trim_excess();
    }
    if (span && is_zero) {
        *is_zero = false;
    }
    return span;
}

/* What a block of a hardened heap leaves: as much of it as of any that is freed. */
static PRIM_COLD void clear(uintptr_t start, size_t size) {
    memset((void *)start, 0, bits_min(size, options.zero_max));
}

/* The block has ended, and its span and guard may serve another. */
static PRIM_COLD void end_hardened(struct span *span) {
    clear(span->address, span_size(span));
    page_heap_count(span, false);
    span_withdraw(span);
    span = large_guard_keep(span);
    if (span) {
        give(span, SPAN_DIRTY);
    }
}

/* Takes a block's span back, as CLEAN if its pages are gone. */
static void end_block(struct span *span, enum span_state state) {
    if (state == SPAN_CLEAN) {
        part_from_guard(span);
    } else if (PRIM_UNLIKELY(options.hardened)) {
        end_hardened(span);
        return;
    }
    purge_free(span, threshold_end(span, state));
}

static bool is_possible(size_t slices) {
    return slices - 1 < (size_t)1 << (PRIM_ADDRESS_BITS - SLICE_SHIFT);
}

/* An aligned span is cut from one that is greater by the alignment, and has descriptors for good:
 * 3 MiB of pages for the most that is allowed, which is more memory than most machines have. */
static struct span *allocate_span(size_t slices, size_t alignment, unsigned object_class) {
    if (!is_possible(slices) || alignment > ALIGNMENT_MAX) {
        return NULL;
    }
    struct span *span = page_heap_allocate_for(slices, 0, alignment, object_class);
    limits_look();
    return span;
}

/* Sees to pages for a part of a span that has none: those of free spans, then huge ones. Who asks
 * for zeros may well never touch them: nothing is moved there. */
static void provide_pages(struct span *span, size_t first_slice, bool is_zero_wanted) {
    struct span_part part = {span->address + first_slice * SLICE_SIZE,
                             span->slice_count - first_slice};
    if (!is_zero_wanted) {
        part.start += recycle_into(span, part) * SLICE_SIZE;
    }
    huge_consider_large(part.start, span_end(span));
}

/* Whether most of the first size bytes of a span that was DIRTY have pages. To take others in their
 * place would lose these: both a fault and a fresh page for each cost more than to copy one. */
static PRIM_COLD bool has_pages_to_lose(const struct span *span, size_t size) {
    return sparse_samples(span->address, size) > SPARSE_SAMPLES / 2;
}

static PRIM_NOINLINE struct span *take(size_t slices, size_t alignment, unsigned object_class,
                                       bool *is_zero) {
    struct span *span = allocate_span(slices, alignment, object_class);
    if (!span) {
        return NULL;
    }
    if (span->is_zero) {
        provide_pages(span, 0, is_zero != NULL);
    }
    if (is_zero) {
        *is_zero = span->is_zero || bare_clear(span);
    }
    return span;
}

PRIM_COLD struct span *large_take(size_t size, size_t alignment, bool *is_zero) {
    return take(slices_for(size), alignment, 0, is_zero);
}

/* large_allocate in a hardened heap. */
static PRIM_COLD struct span *allocate_guarded(size_t size, size_t alignment, bool *is_zero) {
    struct span *kept = take_kept(size, alignment, is_zero);
    struct span *span = kept ? kept : take(span_slices(size), alignment, CLASS_LARGE, is_zero);
    if (span) {
        publish(span, size);
    }
    if (kept) {
        page_heap_count(span, true);
    } else if (span) {
        large_guard_begin(span);
    }
    return span;
}

struct span *large_allocate(size_t size, size_t alignment, bool *is_zero) {
    if (PRIM_UNLIKELY(options.hardened)) {
        return allocate_guarded(size, alignment, is_zero);
    }
    struct span *span = take(slices_for(size), alignment, CLASS_LARGE, is_zero);
    if (PRIM_LIKELY(span != NULL)) {
        publish(span, size);
        span->has_guard = false;
    }
    return span;
}

/* A span for a block that has begun to grow, with room behind it. Pages of its own are wanted from
 * first_new on only: others are to be moved to before that. */
static PRIM_COLD struct span *allocate_growing(size_t size, size_t first_new) {
    trim_excess();
    size_t slices = span_slices(size);
    size_t room = slices ? slices / GROWTH_DIVISOR + 1 : 0;
    struct span *span = NULL;
    if (is_possible(slices + room)) {
        span = page_heap_allocate_for(slices, room, 0, CLASS_LARGE);
        limits_look();
    }
    if (!span && room) {
        span = allocate_span(slices, 0, CLASS_LARGE);
    }
    if (span) {
        bool is_fresh = span->is_zero;
        publish(span, size);
        if (span->slice_count > slices) {
            shrink(span, slices, is_fresh ? SPAN_CLEAN : SPAN_DIRTY);
        }
        if (is_fresh) {
            provide_pages(span, slices_for(first_new), false);
        }
        large_guard_begin(span);
    }
    return span;
}

void *large_allocate_growing(size_t size) {
    struct span *span = allocate_growing(size, 0);
    return span ? (void *)span->address : NULL;
}

/* Only the first slice of a large block tells its class: the one that the address follows. */
PRIM_COLD struct span *large_around(uintptr_t address) {
    enum { SLICES_BACK_MAX = 1 << 16 }; /* 1 GiB */
    struct span *slice = NULL;
    for (unsigned i = 0; i < SLICES_BACK_MAX && !(slice && slice->object_class); i++) {
        slice = span_of_slice(address - i * (uintptr_t)SLICE_SIZE);
        if (!slice) {
            return NULL;
        }
    }
    bool is_inside = slice->object_class && slice->head_offset == 0 &&
                     span_state(slice) == SPAN_LARGE && address < span_end(slice);
    return is_inside ? slice : NULL;
}

void large_release(struct span *span) {
    end_block(span, SPAN_DIRTY);
}

static PRIM_COLD bool resize(struct span *span, size_t slices) {
    size_t old_slices = span->slice_count;
    if (slices < old_slices) {
        shrink(span, slices, threshold_shrink(span, slices));
    }
    if (slices <= old_slices) {
        return true;
    }
    enum span_state grown_into = page_heap_grow(span, slices);
    if (grown_into == SPAN_CLEAN) {
        provide_pages(span, old_slices, false);
    }
    return grown_into != SPAN_NONE;
}

PRIM_COLD bool large_resize(struct span *span, size_t size) {
    size_t slices = slices_for(size);
    size_t old_slices = span->slice_count;
    if (slices == 0 || (size <= MEDIUM_SIZE_MAX && slices <= old_slices / 2)) {
        return false;
    }
    if (span->object_class != CLASS_LARGE || slices == old_slices) {
        return resize(span, slices);
    }
    if (slices < old_slices && options.hardened) {
        clear(span->address + slices * SLICE_SIZE, (old_slices - slices) * SLICE_SIZE);
    }
    large_guard_end(span);
    bool is_done = resize(span, span_slices(size));
    if (span->slice_count > (is_done ? slices : old_slices)) {
        large_guard_begin(span);
    }
    return is_done;
}

PRIM_COLD void *large_move(struct span *span, size_t size) {
    size_t kept = bits_min(span_size(span), size);
    bool is_moving = kept >= MOVE_SIZE_MIN && mapping_moves_well(span->address, span_size(span));
    struct span *target = allocate_growing(size, is_moving ? kept : 0);
    if (!target) {
        return NULL;
    }
    is_moving = is_moving && (target->is_zero || !has_pages_to_lose(target, kept));
    size_t moved = is_moving ? mapping_move(span->address, target->address, span_size(span)) : 0;
    if (moved < kept) {
        memcpy((void *)(target->address + moved), (void *)(span->address + moved), kept - moved);
    }
    if (PRIM_UNLIKELY(span->sampled)) {
        sampler_end((void *)span->address, 0);
    }
    end_block(span, moved == span_size(span) ? SPAN_CLEAN : SPAN_DIRTY);
    return (void *)target->address;
}
