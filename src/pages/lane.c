/* lane.c - see lane.h. */
#include "pages/lane.h"

#include "base/bits.h"
#include "os/alone.h"
#include "pages/page_heap.h"
#include "settings/options.h"

/* Of the heap, mapped, for each lane: what lanes leave untouched is but a part of all. */
enum { LANE_SHARE = 4 << 20 };

static uintptr_t lanes[LANE_MOST]; /* (lock: PAGE_HEAP) where each goes on; 0: in a new block */

unsigned lane_count(void) {
    if (process_is_alone() || options.large_os_pages) {
        return 1;
    }
    size_t shares = load_relaxed(&page_heap.mapped_slices) / (LANE_SHARE / SLICE_SIZE);
    return (unsigned)bits_clamp(shares, 1, LANE_MOST);
}

struct span *lane_rest(unsigned lane, size_t slice_count) {
    uintptr_t address = lanes[lane];
    struct span *span = address ? span_of_slice(address) : NULL;
    bool is_left = span && span_state(span) == SPAN_CLEAN && span->address == address;
    return is_left && span->slice_count >= slice_count ? span : NULL;
}

bool lane_is_begun(uintptr_t address) {
    for (unsigned lane = 0; lane < LANE_MOST; lane++) {
        if (lanes[lane] == address) {
            return true;
        }
    }
    return false;
}

void lane_move(unsigned lane, uintptr_t address) {
    lanes[lane] = address % HUGE_SIZE ? address : 0;
}
