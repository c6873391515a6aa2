/* returned.c - see returned.h. */
#include "pages/returned.h"

#include "base/bits.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/span.h"

enum {
    PLACE_COUNT = 4096, /* 8 GiB of heap before two ranges share a time: the later one's */
    TICK_MS = 16,
    SOON_TICKS = 1000 / TICK_MS,
};

_Atomic uint64_t returned_needed_bytes;
_Atomic bool returned_is_any;

static PRIM_FAR _Atomic uint16_t returned_at[PLACE_COUNT]; /* (atomic: hint) ticks; 0: never */
static _Atomic uint16_t returned_last;                     /* (atomic: hint) the last one of all */

static uint16_t tick_now(void) {
    uint16_t tick = (uint16_t)(machine_clock_ms() / TICK_MS);
    return tick ? tick : 1;
}

PRIM_INLINE _Atomic uint16_t *place_of(uintptr_t address) {
    return &returned_at[(address >> HUGE_SHIFT) % PLACE_COUNT];
}

/* Where the part of a range that begins here, and shares a place, ends. */
static uintptr_t next_place(uintptr_t start, uintptr_t end) {
    return bits_min(bits_round_down(start, HUGE_SIZE) + HUGE_SIZE, end);
}

static bool is_soon(uint16_t then, uint16_t now) {
    return then && (uint16_t)(now - then) <= SOON_TICKS;
}

PRIM_COLD void returned_note(uintptr_t start, uintptr_t end) {
    uint16_t now = tick_now();
    while (start < end) {
        uintptr_t next = next_place(start, end);
        if (memory_has_pages((void *)start, next - start)) {
            store_relaxed(place_of(start), now);
            store_relaxed(&returned_last, now);
            store_relaxed(&returned_is_any, true);
        }
        start = next;
    }
}

PRIM_COLD void returned_count_needed(uintptr_t start, uintptr_t end) {
    uint16_t now = tick_now();
    uint64_t bytes = 0;
    if (!is_soon(load_relaxed(&returned_last), now)) {
        return;
    }
    while (start < end) {
        uintptr_t next = next_place(start, end);
        bytes += is_soon(load_relaxed(place_of(start)), now) ? next - start : 0;
        start = next;
    }
    add_relaxed(&returned_needed_bytes, bytes);
}
