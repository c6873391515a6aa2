/* page_heap.c - see page_heap.h. */
#include "pages/page_heap.h"

#include "base/assert.h"
#include "base/bits.h"
#include "os/alone.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/free_run.h"
#include "pages/growth.h"
#include "pages/huge.h"
#include "pages/lane.h"
#include "pages/limits.h"
#include "pages/mapping.h"
#include "pages/metadata.h"
#include "pages/purge.h"
#include "pages/recycle.h"
#include "pages/sparse.h"
#include "settings/options.h"

enum {
    APART_MOST = 256, /* spans, that one call may have to join */
    RUN_MIN = 64,     /* slices that dirty and clean neighbours may be joined for: 1 MiB ... */
    RUN_MAX = 512,    /* ... to 8 MiB, with what an alignment may need */
};

/* One in so many searches, or spans taken, makes a look due: fewer searches do once all looks tell
 * the same, and more spans while there are doubts, since few are searched for then. Powers of 2. */
enum {
    LOOK_SEARCHES = 64,
    LOOK_SEARCHES_SURE = 1024,
    LOOK_SPANS = 2048,
    LOOK_SPANS_DOUBTED = 64,
    BARE_FREES = 7, /* of a large span are not looked at after one that found it bare */
};

struct page_heap page_heap;
struct span_level span_levels[UINT8_MAX + 1];

static void count_slices(unsigned object_class, size_t slices) {
    struct span_level *level = &span_levels[object_class];
    uint32_t now = load_relaxed(&level->slice_count) + (uint32_t)slices;
    store_relaxed(&level->slice_count, now);
    if (now > load_relaxed(&level->slice_peak)) {
        store_relaxed(&level->slice_peak, now);
    }
}

static void count_new(unsigned object_class, size_t slices) {
    struct span_level *level = &span_levels[object_class];
    store_relaxed(&level->count, load_relaxed(&level->count) + 1);
    store_relaxed(&level->total, load_relaxed(&level->total) + 1);
    count_slices(object_class, slices);
}

static void count_ended(unsigned object_class, size_t slices) {
    struct span_level *level = &span_levels[object_class];
    store_relaxed(&level->count, load_relaxed(&level->count) - 1);
    store_relaxed(&level->slice_count, load_relaxed(&level->slice_count) - (uint32_t)slices);
}

PRIM_COLD void page_heap_count(const struct span *span, bool is_new) {
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    if (is_new) {
        count_new(span->object_class, span->slice_count);
    } else {
        count_ended(span->object_class, span->slice_count);
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
}

struct span *page_heap_split(struct span *span, size_t slice_count) {
    PRIM_ASSERT(span_state(span) == SPAN_BUSY && slice_count < span->slice_count);
    size_t rest = span->slice_count - slice_count;
    struct span *tail = span_create(span->address + slice_count * SLICE_SIZE, rest, SPAN_BUSY);
    tail->is_zero = span->is_zero;
    span_create(span->address, slice_count, SPAN_BUSY);
    return tail;
}

static struct extent_set *set_of(enum span_state state) {
    return state == SPAN_CLEAN ? &page_heap.clean : &page_heap.dirty;
}

void page_heap_remove(struct span *span) {
    enum span_state state = span_state(span);
    extent_set_remove(set_of(state), span);
    span_set_state(span, SPAN_BUSY);
    span->is_zero = state == SPAN_CLEAN;
}

/* What the process would hold with so many clean slices more in use; without the lock, a hint. */
static size_t resident_bytes(size_t slice_count) {
    size_t clean = load_relaxed(&page_heap.clean.slice_count);
    size_t mapped = load_relaxed(&page_heap.mapped_slices); /* read last: it never shrinks */
    return (mapped - clean + slice_count) * SLICE_SIZE + metadata_mapped_bytes();
}

size_t page_heap_resident_bytes(void) {
    return resident_bytes(0);
}

/* Joins a free neighbour of the same state to the BUSY span and returns the joint head. */
static struct span *join(struct span *span, struct span *neighbour, enum span_state state) {
    if (!neighbour || span_state(neighbour) != state) {
        return span;
    }
    page_heap_remove(neighbour);
    struct span *head = neighbour->address < span->address ? neighbour : span;
    return span_create(head->address, (size_t)span->slice_count + neighbour->slice_count,
                       SPAN_BUSY);
}

struct span *page_heap_insert(struct span *span, enum span_state state) {
    PRIM_ASSERT(span_state(span) == SPAN_BUSY);
    span = join(span, span_before(span->address), state);
    span = join(span, span_of_slice(span_end(span)), state);
    span_set_state(span, state);
    extent_set_insert(set_of(state), span);
    if (PRIM_UNLIKELY(limits_are_pressed()) && state == SPAN_CLEAN) {
        limits_note_less(resident_bytes(0)); /* what it was cut from may still be on its way */
    }
    return span;
}

static void settle_one(void) {
    struct span *span = quick_evict(&page_heap.quick);
    extent_set_count(&page_heap.dirty, -(ptrdiff_t)span->slice_count);
    page_heap_insert(span, SPAN_DIRTY);
}

void page_heap_settle(void) {
    while (page_heap.quick.occupied) {
        settle_one();
    }
}

/* Puts a span into the quick lists. As much may be apart as is in use: others join the rest. */
static PRIM_NOINLINE void keep_apart(struct span *span) {
    const struct quick_lists *quick = &page_heap.quick;
    size_t in_use = load_relaxed(&page_heap.mapped_slices) -
                    load_relaxed(&page_heap.clean.slice_count) -
                    load_relaxed(&page_heap.dirty.slice_count);
    while (quick->span_count &&
           (quick->span_count >= APART_MOST || quick->slice_count + span->slice_count > in_use)) {
        settle_one();
    }
    quick_insert(&page_heap.quick, span);
    extent_set_count(&page_heap.dirty, (ptrdiff_t)span->slice_count);
}

void page_heap_note_low_water(void) {
    page_heap.dirty_low_water =
        bits_min(page_heap.dirty_low_water, load_relaxed(&page_heap.dirty.slice_count));
}

/* With the lock held. Locked pages are not tried again before there are others. */
static bool has_excess(void) {
    size_t kept = page_heap.refused_slices * SLICE_SIZE + limits_slack();
    return options.purge && load_relaxed(&page_heap.dirty.slice_count) * SLICE_SIZE > kept;
}

bool page_heap_may_touch(size_t slice_count, bool *is_refused) {
    size_t bytes = resident_bytes(slice_count);
    bool can_help = !*is_refused && limits_would_press(bytes) && has_excess();
    *is_refused = can_help || !limits_allow(bytes);
    return !*is_refused;
}

/* After a free: one that leaves a pressed process with more than the slack ends in a purge. */
static void release_lock(void) {
    bool is_excessive = PRIM_UNLIKELY(limits_are_pressed()) && has_excess();
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    if (is_excessive) {
        purge_all(0);
    }
}

static void look_each(uint64_t count, unsigned interval) {
    if ((count & (interval - 1)) == 0) {
        store_relaxed(&sparse_look_is_due, true);
    }
}

static struct span *search(const struct extent_set *set, size_t slice_count) {
    look_each(++page_heap.search_count,
              load_relaxed(&sparse_unsure) ? LOOK_SEARCHES : LOOK_SEARCHES_SURE);
    return extent_set_best_fit(set, slice_count);
}

static struct span *dirty_fit(size_t slice_count) {
    struct span *span = search(&page_heap.dirty, slice_count);
    if (!span && quick_has_small(&page_heap.quick) && !load_relaxed(&sparse_is_on)) {
        page_heap_settle();
        span = search(&page_heap.dirty, slice_count);
    }
    return span;
}

/* Address space is never given back, so none is taken whose descriptors need more than half of what
 * the limit leaves, as for a great alignment they may. */
static struct span *clean_fit(size_t slice_count) {
    struct span *span = search(&page_heap.clean, slice_count);
    size_t described = slice_count * sizeof(struct span) / SLICE_SIZE;
    return span || !limits_allow(resident_bytes(2 * described)) ? span : growth_extend(slice_count);
}

/* A span freed of late that is just what is asked for. */
static struct span *take_quick(size_t slice_count, size_t alignment) {
    struct span *span = quick_take(&page_heap.quick, slice_count, alignment);
    if (span) {
        extent_set_count(&page_heap.dirty, -(ptrdiff_t)slice_count);
        span->is_zero = false;
    }
    return span;
}

/* With the lock held: cuts an aligned BUSY span out of a free one. */
static struct span *take_aligned(struct span *span, size_t slice_count, size_t alignment) {
    enum span_state state = span_state(span);
    page_heap_remove(span);
    size_t head = (bits_round_up(span->address, alignment) - span->address) / SLICE_SIZE;
    if (head) {
        struct span *aligned = page_heap_split(span, head);
        page_heap_insert(span, state);
        span = aligned;
    }
    if (span->slice_count > slice_count) {
        page_heap_insert(page_heap_split(span, slice_count), state);
    }
    return span;
}

struct request {
    size_t slice_count;
    size_t room; /* of these, that a DIRTY span may lack */
    size_t alignment;
    unsigned object_class;
    bool is_refused;        /* a limit stood in the way */
    uintptr_t clean_end;    /* of the extent, CLEAN at least in part, it was cut from, or 0 */
    unsigned lane;          /* for clean slices */
    struct span_part fresh; /* of neighbours taken as one, what has no pages yet */
};

/* One with an aligned place, which may be less than would have it wherever it begins. */
static struct span *aligned_fit(const struct extent_set *set, const struct request *request) {
    size_t alignment = request->alignment;
    return alignment > SLICE_SIZE ? extent_set_aligned(set, request->slice_count, alignment) : NULL;
}

/* The clean extent that fits best of those that no lane goes on in, or NULL where that has a whole
 * block of 2 MiB; not looked for without end. */
static struct span *clean_left(size_t slice_count) {
    struct span *span = search(&page_heap.clean, slice_count);
    for (int looks = 4; span && looks; looks--) {
        if (!lane_is_begun(span->address)) {
            return span->slice_count < LANE_SEARCHED ? span : NULL;
        }
        span = extent_set_best_fit(&page_heap.clean, span->slice_count + (size_t)1);
    }
    return NULL;
}

/* With the lock held: the clean extent that a span is to be cut from. Among several threads it is
 * what the processor's lane has left, else what is left of no lane, else a whole block of 2 MiB, at
 * whose beginning the span is to lie. */
static struct span *clean_for(struct request *request, size_t searched, size_t *alignment) {
    unsigned lanes = lane_count();
    if (lanes == 1 || searched >= LANE_SLICES) {
        struct span *span = aligned_fit(&page_heap.clean, request);
        return span ? span : clean_fit(searched);
    }
    request->lane = machine_processor() % lanes;
    struct span *span = lane_rest(request->lane, searched);
    span = span ? span : clean_left(searched);
    if (span) {
        return span;
    }
    span = clean_fit(LANE_SEARCHED);
    if (span) {
        *alignment = bits_max(*alignment, HUGE_SIZE);
        return span;
    }
    return clean_fit(searched);
}

/* With the lock held: else the pages of one that was just freed would be moved into a clean one,
 * each time that the program does the same again. */
static struct span *dirty_without_room(struct request *request) {
    size_t least = request->slice_count - request->room;
    struct span *span = extent_set_best_fit(&page_heap.dirty, least);
    if (span) {
        request->slice_count = span->slice_count;
    }
    return span;
}

/* With the lock held: a BUSY span out of a dirty one or, where there is none, of a clean one. */
static struct span *take_free(struct request *request) {
    size_t alignment = request->alignment;
    size_t searched = request->slice_count + alignment / SLICE_SIZE - 1;
    struct span *span = dirty_fit(searched);
    if (!span) {
        span = request->room ? dirty_without_room(request) : aligned_fit(&page_heap.dirty, request);
    }
    if (!span && searched >= RUN_MIN && searched <= RUN_MAX) {
        span = free_run_take(request->slice_count, alignment, request->is_refused, &request->fresh);
        if (span) {
            request->clean_end = span_end(span);
            return span;
        }
    }
    bool is_clean = !span && page_heap_may_touch(request->slice_count, &request->is_refused);
    if (is_clean) {
        span = clean_for(request, searched, &alignment);
        if (!limits_allow(resident_bytes(request->slice_count))) { /* new descriptors count */
            span = NULL;
        }
        request->clean_end = span ? span_end(span) : 0;
    }
    span = span ? take_aligned(span, request->slice_count, alignment) : NULL;
    if (is_clean) {
        limits_note_resident(resident_bytes(0 - request->room));
    }
    if (is_clean && searched < LANE_SLICES) {
        lane_move(request->lane, span ? span_end(span) : 0);
    }
    return span;
}

/* Counts a span, and gives the lock back. */
static void count_taken(unsigned object_class, size_t slice_count) {
    page_heap_note_low_water();
    look_each(++page_heap.span_total,
              load_relaxed(&sparse_doubts) ? LOOK_SPANS_DOUBTED : LOOK_SPANS);
    page_heap.span_peak = bits_max(page_heap.span_peak, ++page_heap.span_count);
    count_new(object_class, slice_count);
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
}

/* With the lock held, which it gives back. */
static struct span *allocate(struct request *request) {
    struct span *span = take_free(request);
    if (PRIM_LIKELY(span != NULL)) {
        span->bare_frees = 0;
        count_taken(request->object_class, request->slice_count);
    } else {
        page_heap_note_low_water();
        lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    }
    return span;
}

/* The same. What fails may succeed once spans that are just moved are free again, and dirty ones
 * have become clean and have joined their neighbours. (For size: what it calls takes longer.) */
static PRIM_COLD struct span *allocate_searching(size_t slice_count, size_t room, size_t alignment,
                                                 unsigned object_class) {
    struct request request = {.slice_count = slice_count + room,
                              .room = room,
                              .alignment = bits_max(alignment, SLICE_SIZE),
                              .object_class = object_class};
    struct span *span = allocate(&request);
    if (PRIM_UNLIKELY(!span)) {
        recycle_wait();
        purge_all(0);
        request.is_refused = true;
        lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
        span = allocate(&request);
    }
    if (span && request.clean_end) {
        mapping_show(span->address, span_end(span));
        recycle_into(span, request.fresh);
        if (slice_count < HUGE_SIZE / SLICE_SIZE) {
            huge_consider_small(span, request.clean_end, request.lane);
        }
    }
    return span;
}

struct span *page_heap_allocate_for(size_t slice_count, size_t room, size_t alignment,
                                    unsigned object_class) {
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    struct span *span = take_quick(slice_count + room, bits_max(alignment, SLICE_SIZE));
    if (!span) {
        return allocate_searching(slice_count, room, alignment, object_class);
    }
    count_taken(object_class, slice_count + room);
    return span;
}

static void withdraw(struct span *span) {
    if (PRIM_LIKELY(span_state(span) == SPAN_LARGE)) {
        span_publish_large(span, 0);
        span_set_state(span, SPAN_BUSY);
    } else {
        span_withdraw(span);
    }
}

/* To look takes longer than all the rest of a free. */
static bool is_bare_still(struct span *span) {
    if (span->bare_frees) {
        span->bare_frees--;
        return true;
    }
    bool is_bare = sparse_is_bare(span);
    span->bare_frees = is_bare ? BARE_FREES : 0;
    return is_bare;
}

/* Whether a span is to serve blocks of its size: all do while most are bare, and a large one
 * that is bare itself. */
static bool stays_apart(struct span *span) {
    if (PRIM_UNLIKELY(load_relaxed(&sparse_look_is_due))) {
        sparse_look(span);
    }
    return PRIM_UNLIKELY(load_relaxed(&sparse_is_on)) ||
           (span->slice_count > QUICK_MAX && is_bare_still(span));
}

void page_heap_free(struct span *span, enum span_state state) {
    bool is_apart = state == SPAN_DIRTY && span->slice_count >= SPARSE_MIN && stays_apart(span);
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    page_heap.span_count--;
    if (span->object_class) {
        count_ended(span->object_class, span->slice_count);
        withdraw(span);
    }
    if (is_apart) {
        keep_apart(span);
    } else {
        page_heap_insert(span, state);
    }
    release_lock();
}

static PRIM_COLD enum span_state grow(struct span *span, size_t slice_count, bool *is_refused) {
    size_t missing = slice_count - span->slice_count;
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    page_heap_settle();
    struct span *next = span_of_slice(span_end(span));
    enum span_state state = next ? span_state(next) : SPAN_NONE;
    bool fits = (state == SPAN_DIRTY || state == SPAN_CLEAN) && next->slice_count >= missing;
    if (fits && (state == SPAN_DIRTY || page_heap_may_touch(missing, is_refused))) {
        page_heap_remove(next);
        if (next->slice_count > missing) {
            page_heap_insert(page_heap_split(next, missing), state);
        }
        span_create(span->address, slice_count, SPAN_LARGE);
        count_slices(span->object_class, missing);
        page_heap_note_low_water();
        limits_note_resident(resident_bytes(0));
    } else {
        state = SPAN_NONE;
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    if (state == SPAN_CLEAN) {
        mapping_show(span_end(span) - missing * SLICE_SIZE, span_end(span));
    }
    return state;
}

PRIM_COLD enum span_state page_heap_grow(struct span *span, size_t slice_count) {
    bool is_refused = false;
    enum span_state state = grow(span, slice_count, &is_refused);
    if (PRIM_UNLIKELY(is_refused)) {
        purge_all(0);
        state = grow(span, slice_count, &is_refused);
    }
    return state;
}

/* Neighbours look at a span's last slice, under the lock. */
PRIM_COLD void page_heap_cut(struct span *span, size_t slice_count) {
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    if (slice_count < span->slice_count) {
        span_create(span->address + slice_count * SLICE_SIZE, span->slice_count - slice_count,
                    SPAN_BUSY);
        page_heap.span_count++;
    } else {
        page_heap.span_count--;
    }
    count_slices(span->object_class, slice_count - span->slice_count);
    span_create(span->address, slice_count, span_state(span));
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
}

size_t page_heap_free_bytes(void) {
    size_t slices =
        load_relaxed(&page_heap.clean.slice_count) + load_relaxed(&page_heap.dirty.slice_count);
    return slices * SLICE_SIZE;
}
