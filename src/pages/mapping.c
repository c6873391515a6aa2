/* mapping.c - see mapping.h. */
#include "pages/mapping.h"

#include "base/bits.h"
#include "os/memory.h"
#include "pages/huge.h"
#include "pages/limits.h"
#include "pages/returned.h"
#include "settings/options.h"

enum { SLICES_A_WORD = 64, WORD_SIZE = SLICES_A_WORD * SLICE_SIZE };

static _Atomic size_t cut_count; /* (atomic: counter) bits set in all chunks */
static _Atomic bool has_hidden;  /* (atomic: hint) something was hidden once */
/* (atomic: set before anybody has the block) A page was forbidden once, by a mark or by a mapping
 * of its own. Of the latter cuts do not tell: an advice given beside it clears them. */
static _Atomic bool has_marks, has_forbidden;

/* The bits of the slices from start to end that are in the word of start; end is greater. */
static uint64_t mask_of(uintptr_t start, uintptr_t end) {
    size_t first = (start >> SLICE_SHIFT) % SLICES_A_WORD;
    size_t count = bits_min((end - start) >> SLICE_SHIFT, SLICES_A_WORD - first);
    return UINT64_MAX >> (SLICES_A_WORD - count) << first;
}

static uintptr_t next_word(uintptr_t address) {
    return bits_round_up(address + 1, WORD_SIZE);
}

static void set_cut(uintptr_t address) {
    uint64_t bit = mask_of(address, address + SLICE_SIZE);
    if (!(or_relaxed(span_cut_bits(address), bit) & bit)) {
        add_relaxed(&cut_count, 1);
    }
}

static void clear_cuts(uintptr_t start, uintptr_t end) {
    for (uintptr_t at = start; at < end; at = next_word(at)) {
        uint64_t mask = mask_of(at, end);
        uint64_t cleared = and_relaxed(span_cut_bits(at), ~mask) & mask;
        subtract_relaxed(&cut_count, (size_t)bits_count(cleared));
    }
}

/* The first cut in [start, end), or end. */
static uintptr_t next_cut(uintptr_t start, uintptr_t end) {
    for (uintptr_t at = start; at < end; at = next_word(at)) {
        uint64_t bits = load_relaxed(span_cut_bits(at)) & mask_of(at, end);
        if (bits) {
            return bits_round_down(at, WORD_SIZE) + (uintptr_t)bits_lowest(bits) * SLICE_SIZE;
        }
    }
    return end;
}

bool mapping_may_cut(void) {
    return load_relaxed(&cut_count) < limits_map_budget();
}

bool mapping_may_move(void) {
    return options.moves && memory_page_size() <= SLICE_SIZE &&
           !load_relaxed(&memory_loses_source) && mapping_may_cut();
}

/* The range [start, end) has become a mapping, or several, of its own. */
static void note_cut(uintptr_t start, uintptr_t end) {
    set_cut(start);
    if (span_of_slice(end)) { /* else nothing of ours begins there */
        set_cut(end);
    }
}

static void look_at_border(uintptr_t at) {
    size_t page = memory_page_size();
    if (memory_is_one_mapping((void *)(at - page), 2 * page)) {
        clear_cuts(at, at + SLICE_SIZE);
    } else {
        set_cut(at);
    }
}

/* The kernel joins what it is told the same of, but not pages that faulted in apart. */
void mapping_note_advice(uintptr_t start, uintptr_t end) {
    look_at_border(start);
    if (span_of_slice(end)) {
        look_at_border(end);
    }
    if (memory_is_one_mapping((void *)start, end - start)) {
        clear_cuts(start + SLICE_SIZE, end);
    }
}

bool mapping_moves_well(uintptr_t from, size_t size) {
    enum { RUN_MIN = 128 * 1024 }; /* in the mean: less is no cheaper than faulting */
    size_t allowed = size / RUN_MIN;
    uintptr_t at = from;
    for (size_t runs = 0; runs <= allowed; runs++) {
        at = next_cut(at + SLICE_SIZE, from + size);
        if (at >= from + size) {
            return mapping_may_move();
        }
    }
    return false;
}

static bool has_pool_pages(uintptr_t start, uintptr_t end) {
    for (uintptr_t at = bits_round_down(start, HUGE_SIZE); at < end; at += HUGE_SIZE) {
        if (span_has_mark(at, MARK_POOL)) {
            return true;
        }
    }
    return false;
}

size_t mapping_move(uintptr_t from, uintptr_t to, size_t size) {
    size_t moved = 0;
    if (memory_is_pinned((void *)from) || has_pool_pages(to, to + size)) {
        return 0;
    }
    huge_forget(from, from + size);
    while (moved < size && mapping_may_move()) {
        size_t run = next_cut(from + moved + SLICE_SIZE, from + size) - (from + moved);
        if (!memory_move((void *)(from + moved), (void *)(to + moved), run)) {
            break;
        }
        clear_cuts(to + moved, to + moved + run);
        set_cut(to + moved);
        moved += run;
    }
    if (moved) {
        note_cut(to, to + moved);
    }
    return moved;
}

/* Kernels before 6.13 cut mappings for it. */
PRIM_COLD bool mapping_forbid(uintptr_t address) {
    if (memory_page_size() > SLICE_SIZE || has_pool_pages(address, address + SLICE_SIZE)) {
        return false;
    }
    if (memory_guard((void *)address, memory_page_size())) {
        store_relaxed(&has_marks, true);
        return true;
    }
    bool is_cut = mapping_may_cut() && memory_forbid((void *)address, memory_page_size());
    if (is_cut) {
        store_relaxed(&has_forbidden, true);
        note_cut(address, address + SLICE_SIZE);
    }
    return is_cut;
}

PRIM_COLD bool mapping_allow(uintptr_t address) {
    if (!memory_unguard((void *)address, memory_page_size()) && load_relaxed(&has_marks)) {
        return false; /* a filter forbids it by now */
    }
    if (!load_relaxed(&has_forbidden)) {
        return true;
    }
    if (!memory_commit((void *)address, memory_page_size())) {
        return false;
    }
    mapping_note_advice(address, address + SLICE_SIZE); /* cuts of what moved stay */
    return true;
}

bool mapping_drop(uintptr_t address, size_t size) {
    if (has_pool_pages(address, address + size)) {
        return false;
    }
    huge_forget(address, address + size);
    return memory_purge((void *)address, size);
}

bool mapping_purge(uintptr_t address, size_t size) {
    if (!mapping_drop(address, size)) {
        return false;
    }
    uintptr_t start = bits_round_up(address, HUGE_SIZE);
    uintptr_t end = bits_round_down(address + size, HUGE_SIZE);
    if (start < end) {
        span_forget_inner(address, address + size);
    }
    if (start < end && load_relaxed(&cut_count) < limits_map_budget() / 2 && /* leave moves some */
        memory_dump((void *)start, end - start, false)) {
        store_relaxed(&has_hidden, true);
        span_set_marks(start, end, MARK_HIDDEN, true);
        mapping_note_advice(start, end);
    }
    return true;
}

void mapping_show(uintptr_t start, uintptr_t end) {
    returned_need(start, end);
    if (PRIM_LIKELY(!load_relaxed(&has_hidden))) {
        return;
    }
    for (uintptr_t at = bits_round_down(start, HUGE_SIZE); at < end; at += HUGE_SIZE) {
        uintptr_t first = at;
        while (at < end && span_has_mark(at, MARK_HIDDEN)) { /* then all of it is heap */
            at += HUGE_SIZE;
        }
        if (first < at) {
            memory_dump((void *)first, at - first, true);
            span_set_marks(first, at, MARK_HIDDEN, false);
            mapping_note_advice(first, at);
        }
    }
}
