/* returned.c - see returned.h. */
#include "pages/returned.h"

#include "base/bits.h"
#include "os/machine.h"
#include "os/memory.h"
#include "pages/span.h"

enum {
    PLACE_COUNT = 4096,     /* 8 GiB of heap before two ranges share a time: the later one's */
    UNIT_SIZE = PAGE_LEAST, /* of counting */
    TICK_SHIFT = 16,        /* of a place; below are units */
    TICK_MS = 16,
    SOON_TICKS = 1000 / TICK_MS,
};

_Atomic uint64_t returned_needed_bytes;
_Atomic bool returned_is_any;

/* (atomic: hint) The tick, and how many units went back and were not needed since; 0: never. */
static PRIM_FAR _Atomic uint32_t returned_at[PLACE_COUNT];
static _Atomic uint16_t returned_last; /* (atomic: hint) the last tick of all */

static uint16_t tick_now(void) {
    uint16_t tick = (uint16_t)(machine_clock_ms() / TICK_MS);
    return tick ? tick : 1;
}

PRIM_INLINE _Atomic uint32_t *place_of(uintptr_t address) {
    return &returned_at[(address >> HUGE_SHIFT) % PLACE_COUNT];
}

/* Where the part of a range that begins here, and shares a place, ends. */
static uintptr_t next_place(uintptr_t start, uintptr_t end) {
    return bits_min(bits_round_down(start, HUGE_SIZE) + HUGE_SIZE, end);
}

static bool is_soon(uint16_t then, uint16_t now) {
    return then && (uint16_t)(now - then) <= SOON_TICKS;
}

/* Units of a place that went back of late and were not needed since. */
static uint32_t units_left(uintptr_t address, uint16_t now) {
    uint32_t place = load_relaxed(place_of(address));
    return is_soon((uint16_t)(place >> TICK_SHIFT), now) ? place % (1u << TICK_SHIFT) : 0;
}

static void set_place(uintptr_t address, uint16_t tick, uint32_t units) {
    store_relaxed(place_of(address), (uint32_t)tick << TICK_SHIFT | units);
}

PRIM_COLD size_t returned_note(uintptr_t start, uintptr_t end) {
    uint16_t now = tick_now();
    size_t total = 0;
    while (start < end) {
        uintptr_t next = next_place(start, end);
        size_t resident = memory_resident((void *)start, next - start);
        total += resident;
        if (resident) {
            size_t units = units_left(start, now) + resident / UNIT_SIZE;
            set_place(start, now, (uint32_t)bits_min(units, HUGE_SIZE / UNIT_SIZE));
            store_relaxed(&returned_last, now);
            store_relaxed(&returned_is_any, true);
        }
        start = next;
    }
    return total;
}

PRIM_COLD void returned_count_needed(uintptr_t start, uintptr_t end) {
    uint16_t now = tick_now();
    uint64_t needed = 0; /* units */
    if (!is_soon(load_relaxed(&returned_last), now)) {
        return;
    }
    while (start < end) {
        uintptr_t next = next_place(start, end);
        uint32_t left = units_left(start, now);
        uint32_t count = (uint32_t)bits_min(left, (next - start) / UNIT_SIZE);
        if (count) {
            uint16_t then = (uint16_t)(load_relaxed(place_of(start)) >> TICK_SHIFT);
            set_place(start, then, left - count);
            needed += count;
        }
        start = next;
    }
    add_relaxed(&returned_needed_bytes, needed * UNIT_SIZE);
}
