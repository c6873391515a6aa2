/* purge.c - see purge.h. */
#include "pages/purge.h"

#include "base/bits.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/limits.h"
#include "pages/mapping.h"
#include "pages/returned.h"
#include "pages/sparse.h"
#include "settings/options.h"

enum {
    BLOCK_SHIFT = HUGE_SHIFT,
    BLOCK_SIZE = HUGE_SIZE,
    BATCH_SIZE = 16 << 20, /* a system call of about a millisecond */
    BARE_MAX = 1 << 30,    /* as much more goes at once as went without a page before it */
    AGE_COUNT = 4096,      /* 8 GiB of heap before two blocks share an age: the younger one's */
    REFUSALS_BELOW = 16,   /* locked pages: go on below them so many times, */
    REFUSALS_MAX = 24,     /* then in other spans */
    SMALL_HEAP = 32 << 20, /* no huge pages here, so none to keep whole */
    VISIT_LOOKS = 24,      /* of one of the program's calls: it has better things to do */
    BUSY_SPANS = 64,       /* taken in an epoch; with less, nothing stays apart for their sake */
    PIECE_LOOKS = 12,      /* looks that take as long as giving a piece back */
    NEEDED_DIVISOR = 16,   /* a part of what goes back may be needed again while it goes */
};

_Atomic bool purge_is_due;

enum stage { STAGE_WHOLE, STAGE_PARTS, STAGE_OVER };

/* What to purge, and how far we are; all zero but for what is wanted is a search's beginning. */
struct search {
    size_t left;              /* slices still to be purged */
    uint16_t since;           /* blocks freed in this generation or later are not idle */
    bool is_for_all;          /* idle or not */
    bool is_for_any_part;     /* parts of blocks are idle by their number, whichever they are */
    bool counts_resident;     /* purged is what was resident */
    bool may_break;           /* huge pages may be broken up for any part */
    bool may_cut;             /* parts of whole blocks may go in the end */
    bool has_young;           /* met a block that is not idle */
    enum stage stage;         /* whole blocks, then anything */
    unsigned refusals;        /* by the kernel */
    size_t looks;             /* at spans and blocks that this visit has left */
    size_t cursor_slices;     /* the walk goes on before a span of this size; 0: begins */
    uintptr_t cursor_address; /* at this address */
    uintptr_t cursor_end;     /* within a span, below this address; 0: at its end */
    size_t bare;              /* bytes that went last, without a page in them */
    size_t purged;            /* bytes */
};

static struct {
    struct lock lock;
    struct search idle;            /* (lock: PURGE) for what was idle in the epoch before */
    uint64_t epoch_start_ms;       /* (lock: PURGE) of the running epoch */
    uint64_t span_total;           /* (lock: PURGE) the page heap's when the epoch began */
    _Atomic uint64_t needed_bytes; /* (atomic: hint) returned.h's when the epoch began */
    uint16_t epoch_generation;     /* (lock: PURGE) generation that the epoch began with */
    uint16_t window_generation;    /* (lock: PURGE) generation that the window began with */
    _Atomic uint16_t generation;   /* (atomic: hint; written under PURGE) counts epochs, windows */
    _Atomic bool keeps_ages;       /* (atomic: hint) a window was opened once */
} purge;

/* (atomic: hint) Generation of a block's last free. */
static PRIM_FAR _Atomic uint16_t freed_in[AGE_COUNT];

struct piece {
    uintptr_t start;
    uintptr_t end; /* start == end: nothing */
};

static _Atomic uint16_t *age_of(uintptr_t address) {
    return &freed_in[(address >> BLOCK_SHIFT) % AGE_COUNT];
}

/* With PURGE held: from now on frees leave a mark that is not before the one returned. */
static uint16_t next_generation(void) {
    uint16_t next = (uint16_t)(load_relaxed(&purge.generation) + 1);
    store_relaxed(&purge.generation, next);
    return next;
}

static uint16_t mark_freed(uintptr_t start, uintptr_t end) {
    uint16_t now = load_relaxed(&purge.generation);
    for (uintptr_t at = bits_round_down(start, BLOCK_SIZE); at < end; at += BLOCK_SIZE) {
        store_relaxed(age_of(at), now);
    }
    return now;
}

static bool is_idle(uintptr_t address, struct search *search) {
    bool idle = !load_relaxed(&purge.keeps_ages) ||
                (int16_t)(load_relaxed(age_of(address)) - search->since) < 0;
    search->has_young |= !idle;
    return idle;
}

/* Whether size bytes of the block around address may go. A huge page is not broken up for less than
 * a quarter of it while there is anything else. */
static bool may_go(uintptr_t address, size_t size, struct search *search) {
    if (search->is_for_all) {
        return true;
    }
    if (size == BLOCK_SIZE) {
        return (search->stage == STAGE_WHOLE || search->may_cut) && is_idle(address, search);
    }
    if (size < BLOCK_SIZE / 4 && !search->may_break && span_has_mark(address, MARK_ASKED)) {
        return false;
    }
    return search->is_for_any_part || is_idle(address, search);
}

static PRIM_NOINLINE size_t unit_of(const struct search *search) {
    return search->stage == STAGE_WHOLE ? (size_t)BLOCK_SIZE
                                        : bits_max(memory_page_size(), SLICE_SIZE);
}

/* The highest piece of the span that may go, of a batch at most: of a block once one was refused,
 * for a single locked page. */
static PRIM_COLD struct piece find_piece(const struct span *span, struct search *search) {
    size_t unit = unit_of(search);
    uintptr_t low = bits_round_up(span->address, unit);
    uintptr_t at = bits_round_down(span_end(span), unit);
    size_t most = search->refusals ? BLOCK_SIZE : BATCH_SIZE + search->bare;
    struct piece piece = {0, 0};
    if (search->cursor_end > low) {
        at = bits_min(at, search->cursor_end);
    }
    search->cursor_end = 0;
    while (at > low && piece.end - piece.start < most) {
        if (search->looks == 0) {
            search->cursor_end = at;
            break;
        }
        search->looks--;
        uintptr_t start = bits_max(low, bits_round_down(at - 1, BLOCK_SIZE));
        if (may_go(start, at - start, search)) {
            piece.end = piece.end ? piece.end : at;
            piece.start = start;
        } else if (piece.end) {
            break;
        }
        at = start;
    }
    return piece;
}

/* Cuts a piece to what is left to purge, in favour of its low end, which is reused first. */
static struct piece cut_piece(struct piece piece, const struct search *search) {
    size_t slices = (piece.end - piece.start) / SLICE_SIZE;
    size_t kept = slices - bits_min(slices, search->left);
    piece.start += bits_round_up(kept * SLICE_SIZE, unit_of(search));
    return piece;
}

/* With the page heap's lock held: takes the piece out of a DIRTY span. */
static struct span *take_piece(struct span *span, struct piece piece) {
    page_heap_remove(span);
    if (piece.end < span_end(span)) {
        size_t kept = (piece.end - span->address) / SLICE_SIZE;
        page_heap_insert(page_heap_split(span, kept), SPAN_DIRTY);
    }
    if (piece.start > span->address) {
        size_t kept = (piece.start - span->address) / SLICE_SIZE;
        struct span *inner = page_heap_split(span, kept);
        page_heap_insert(span, SPAN_DIRTY);
        span = inner;
    }
    return span;
}

/* With both locks held, dropping the page heap's around the system call. */
static PRIM_COLD void purge_piece(struct span *span, struct piece piece, struct search *search) {
    span = take_piece(span, piece);
    size_t size = span_size(span);
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    size_t resident = returned_note(piece.start, piece.end);
    resident = load_relaxed(&memory_is_blind) ? size : resident;
    search->bare = resident ? 0 : bits_min(search->bare + size, BARE_MAX);
    resident = search->counts_resident ? resident : size;
    bool done = mapping_purge(piece.start, size);
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    page_heap_insert(span, done ? SPAN_CLEAN : SPAN_DIRTY);
    search->looks -= bits_min(search->looks, PIECE_LOOKS);
    if (done) {
        search->left -= size / SLICE_SIZE;
        search->purged += resident;
    } else { /* joined again with what it was cut from: go on in that, or with what comes before */
        search->cursor_end = search->refusals++ ? piece.start : piece.end;
        if (search->refusals < REFUSALS_BELOW) {
            search->cursor_address++; /* the walk meets the span once more */
        }
    }
}

static bool is_over(const struct search *search) {
    return search->left == 0 || search->refusals >= REFUSALS_MAX || search->stage == STAGE_OVER;
}

static void end_stage(struct search *search) {
    search->stage++;
    search->cursor_slices = 0;
    search->cursor_end = 0;
}

/* With both locks held: walks the dirty spans from the largest down, to the stage's end if looks
 * last. What is left of a span after a piece was taken out is smaller than it was, so the walk
 * meets it again. */
static PRIM_COLD void walk(struct search *search) {
    enum { STEPS_UNDER_LOCK = 64 };
    size_t least = unit_of(search) / SLICE_SIZE;
    if (search->cursor_slices == 0) {
        search->cursor_slices = SIZE_MAX;
        search->cursor_address = 0;
    }
    for (unsigned steps = 1; search->looks && !is_over(search); steps++) {
        struct span *span =
            extent_set_before(&page_heap.dirty, search->cursor_slices, search->cursor_address);
        search->looks--;
        if (!span || span->slice_count < least) {
            end_stage(search);
            return;
        }
        struct piece piece = find_piece(span, search);
        search->cursor_slices = span->slice_count; /* before this span, or it once more */
        search->cursor_address = span->address + (search->cursor_end != 0);
        if (piece.start < piece.end) {
            piece = cut_piece(piece, search);
            if (piece.start >= piece.end) { /* a whole one is there, and too large for today */
                if (!search->may_cut) {
                    search->left = 0;
                }
                end_stage(search);
                return;
            }
            purge_piece(span, piece, search);
            if (!search->is_for_all && lock_is_wanted(&purge.lock)) { /* the rest can wait */
                search->looks = 0;
            }
        } else if (steps % STEPS_UNDER_LOCK == 0) {
            lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
            lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
        }
    }
}

/* With both locks held: goes on with the search for so many looks. What goes was idle in the
 * running epoch, too. */
static PRIM_COLD void purge_found(struct search *search, size_t looks) {
    size_t before = search->purged;
    if (search != &purge.idle || !load_relaxed(&sparse_is_on)) {
        page_heap_settle();
    }
    search->may_cut =
        search->is_for_all || load_relaxed(&page_heap.mapped_slices) < SMALL_HEAP / SLICE_SIZE;
    search->looks = looks;
    while (search->looks && !is_over(search)) {
        walk(search);
    }
    size_t slices = (search->purged - before) / SLICE_SIZE;
    page_heap.dirty_low_water -= bits_min(page_heap.dirty_low_water, slices);
    page_heap_note_low_water();
}

/* Dirty slices beyond so many bytes. */
static size_t dirty_above(size_t bytes) {
    size_t keep = bytes / SLICE_SIZE + (bytes % SLICE_SIZE != 0);
    size_t dirty = load_relaxed(&page_heap.dirty.slice_count);
    return dirty > keep ? dirty - keep : 0;
}

uint64_t purge_needed_bytes(void) {
    uint64_t before = load_relaxed(&purge.needed_bytes);
    return load_relaxed(&returned_needed_bytes) - before;
}

/* With PURGE held: what was idle throughout the epoch is to be purged from now on. */
static PRIM_COLD void end_epoch(uint64_t now) {
    purge.idle = (struct search){.since = purge.epoch_generation, .is_for_any_part = true};
    purge.epoch_start_ms = now;
    store_relaxed(&purge.needed_bytes, load_relaxed(&returned_needed_bytes));
    purge.epoch_generation = next_generation();
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    purge.idle.left = page_heap.dirty_low_water;
    page_heap.dirty_low_water = load_relaxed(&page_heap.dirty.slice_count);
    if (page_heap.span_total - purge.span_total < BUSY_SPANS) {
        store_relaxed(&sparse_is_on, false);
    }
    purge.span_total = page_heap.span_total;
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
}

/* With PURGE held: purges some of it, as far as it has not been needed meanwhile. */
static PRIM_COLD void visit_idle(void) {
    struct search *idle = &purge.idle;
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    size_t most = bits_min(page_heap.dirty_low_water, dirty_above(option_now(top_pad)));
    idle->left = bits_min(idle->left, most);
    if (purge_needed_bytes() > (idle->purged + BLOCK_SIZE) / NEEDED_DIVISOR) {
        idle->left = 0; /* the next epoch will know better what is idle */
    }
    purge_found(idle, VISIT_LOOKS);
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
}

void purge_tick(void) {
    if (!options.purge || !lock_try_acquire_unranked(&purge.lock)) {
        return; /* somebody else is at it, or a fork is */
    }
    uint64_t now = machine_clock_ms();
    bool is_wanted = options_return_idle();
    if (is_wanted && now - purge.epoch_start_ms >= options.purge_delay) {
        end_epoch(now);
    }
    bool is_under_way = is_wanted && !is_over(&purge.idle);
    if (is_under_way) {
        visit_idle();
    }
    store_relaxed(&purge_is_due, is_under_way && !is_over(&purge.idle));
    lock_release_unranked(&purge.lock);
    limits_note_resident(page_heap_resident_bytes()); /* the limit may be another by now */
    limits_note_time(now);
}

void purge_open_window(void) {
    lock_acquire(&purge.lock, LOCK_PURGE);
    mark_freed(0, (uintptr_t)AGE_COUNT << BLOCK_SHIFT); /* what is very old would look young */
    purge.window_generation = next_generation();
    store_relaxed(&purge.keeps_ages, true);
    lock_release(&purge.lock, LOCK_PURGE);
}

size_t purge_end_window(bool may_break, bool *has_young) {
    lock_acquire(&purge.lock, LOCK_PURGE);
    struct search search = {.since = purge.window_generation, .may_break = may_break};
    purge.window_generation = next_generation();
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    search.left = options_return_idle() ? dirty_above(option_now(top_pad)) : 0;
    purge_found(&search, SIZE_MAX);
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    lock_release(&purge.lock, LOCK_PURGE);
    *has_young = search.has_young;
    return search.purged;
}

static size_t purge_above(size_t keep_bytes, struct search search) {
    lock_acquire(&purge.lock, LOCK_PURGE);
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    search.left = dirty_above(keep_bytes);
    purge_found(&search, SIZE_MAX);
    page_heap.dirty_low_water = load_relaxed(&page_heap.dirty.slice_count);
    page_heap.refused_slices = search.refusals ? page_heap.dirty_low_water : 0;
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    lock_release(&purge.lock, LOCK_PURGE);
    return search.purged;
}

size_t purge_all(size_t keep_bytes) {
    return purge_above(keep_bytes, (struct search){.is_for_all = true, .counts_resident = true});
}

/* The largest spans tell, by a few pages of each, which the system is asked for outside the lock;
 * what is apart is of a sparse program. */
PRIM_COLD size_t purge_bare_bytes(size_t enough) {
    enum { SPANS = 16 };
    uintptr_t addresses[SPANS];
    size_t sizes[SPANS];
    unsigned count = 0;
    size_t bare = 0;
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    if (load_relaxed(&sparse_is_on)) {
        bare = page_heap.quick.slice_count * SLICE_SIZE;
    } else {
        page_heap_settle();
    }
    const struct span *span = extent_set_largest(&page_heap.dirty);
    for (; span && count < SPANS; count++) {
        addresses[count] = span->address;
        sizes[count] = span_size(span);
        span = extent_set_before(&page_heap.dirty, span->slice_count, span->address);
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    for (unsigned i = 0; i < count && bare <= enough; i++) {
        unsigned resident = sparse_samples(addresses[i], sizes[i]);
        bare += sizes[i] / SPARSE_SAMPLES * (SPARSE_SAMPLES - resident);
    }
    return bare;
}

/* options.trim_threshold: more free memory goes back at once, as from the top of glibc's heap. */
static PRIM_COLD void trim(void) {
    if (options.purge && dirty_above(option_now(trim_threshold))) {
        purge_above(option_now(top_pad), (struct search){.is_for_all = true});
    }
}

/* The mark is made before others can take the pages, and again if a window began meanwhile. */
static PRIM_NOINLINE void free_with_age(struct span *span) {
    uintptr_t start = span->address;
    uintptr_t end = span_end(span);
    uint16_t marked = mark_freed(start, end);
    page_heap_free(span, SPAN_DIRTY);
    if (marked != load_relaxed(&purge.generation)) {
        mark_freed(start, end);
    }
}

void purge_free(struct span *span, enum span_state state) {
    /* Both, because small spans are many and the clock costs as much as freeing a large one. */
    enum { SLICES_BETWEEN_LOOKS = (1 << 20) / SLICE_SIZE, FREES_BETWEEN_LOOKS = 16 };
    static _Atomic uint32_t slices_freed; /* (atomic: hint) since the last look at the clock */
    /* (atomic: hint) since then; the first look comes at once, so that a loop's later turns do not
     * pay for its code's first use */
    static _Atomic uint32_t frees = FREES_BETWEEN_LOOKS - 1;
    uint32_t slices = load_relaxed(&slices_freed) + (uint32_t)bits_min(span->slice_count, 1 << 20);
    uint32_t count = load_relaxed(&frees) + 1;
    bool is_due = count >= FREES_BETWEEN_LOOKS && slices >= SLICES_BETWEEN_LOOKS;
    if (PRIM_UNLIKELY(load_relaxed(&purge_is_due))) {
        is_due = count >= FREES_BETWEEN_LOOKS || span->slice_count >= FREES_BETWEEN_LOOKS;
    }
    store_relaxed(&slices_freed, is_due ? 0 : slices);
    store_relaxed(&frees, is_due ? 0 : count);
    if (PRIM_UNLIKELY(load_relaxed(&purge.keeps_ages)) && state == SPAN_DIRTY) {
        free_with_age(span);
    } else {
        page_heap_free(span, state);
    }
    if (PRIM_UNLIKELY(option_now(trim_threshold) != OPTION_AUTO)) {
        trim();
    }
    if (is_due) {
        purge_tick();
    }
}

void purge_fork_prepare(void) {
    lock_acquire_unranked(&purge.lock);
}

void purge_fork_parent(void) {
    lock_release_unranked(&purge.lock);
}

void purge_fork_child(void) {
    lock_reset(&purge.lock);
}
