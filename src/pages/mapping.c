/* mapping.c - see mapping.h. */
#include "pages/mapping.h"

#include "base/bits.h"
#include "os/memory.h"
#include "pages/limits.h"
#include "settings/options.h"

enum { SLICES_A_WORD = 64, WORD_SIZE = SLICES_A_WORD * SLICE_SIZE };

static _Atomic size_t cut_count; /* (atomic: counter) bits set in all chunks */

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
        subtract_relaxed(&cut_count, (size_t)__builtin_popcountll(cleared));
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
    return options.moves && memory_page_size() <= SLICE_SIZE &&
           load_relaxed(&cut_count) < limits_map_budget();
}

void mapping_note_cut(uintptr_t start, uintptr_t end) {
    set_cut(start);
    if (span_of_slice(end)) { /* else nothing of ours begins there */
        set_cut(end);
    }
}

size_t mapping_move(uintptr_t from, uintptr_t to, size_t size) {
    size_t moved = 0;
    if (memory_is_pinned((void *)from)) {
        return 0;
    }
    while (moved < size && mapping_may_cut()) {
        size_t run = next_cut(from + moved + SLICE_SIZE, from + size) - (from + moved);
        if (!memory_move((void *)(from + moved), (void *)(to + moved), run)) {
            break;
        }
        clear_cuts(to + moved, to + moved + run);
        set_cut(to + moved);
        moved += run;
    }
    if (moved) {
        mapping_note_cut(to, to + moved);
    }
    return moved;
}
