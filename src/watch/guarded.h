/* guarded.h - guarded sampling: a few allocations lie between two pages that nobody may touch.
 *
 * A user of the sampler that places: the block ends right before a forbidden page, or begins right
 * behind one, by a throw. Once freed, its page is forbidden as well, until all other free slots
 * have been used. So an overrun, an underrun or a use after free faults at the very instruction,
 * and is reported with what it hit, where that was allocated and where it was freed. What lies in
 * the page beside the block is filled with a pattern, and looked at when the block is freed: then
 * smaller overruns show, and so do frees that are no block's, or come twice.
 *
 * Meant for production: how often is bounded by bytes (options.guarded_bytes), by time
 * (options.guarded_rate, and half a percent of the time, unless that is 0), memory by the pool
 * (options.guarded_slots pages at most), which is address space reserved once, when the first
 * block is placed. Blocks above 4 KiB are not placed.
 *
 * A slot belongs to whoever changed its state from FREE or LIVE to BUSY; there is no lock, so the
 * handler of a fault waits for nobody. A fork's child makes the pool if another thread was making
 * it, and never uses the slots that others had BUSY. A report may show a slot while another thread
 * changes it: it can be wrong about a block that is freed at that very moment.
 *
 * What no signal tells: the kernel's own access for a system call gives EFAULT instead. And a
 * program that sets its own action for SIGSEGV takes the reports of faults away. */
#ifndef PRIM_WATCH_GUARDED_H
#define PRIM_WATCH_GUARDED_H

#include "base/atomics.h"

enum { GUARDED_FRAMES_MAX = 16 };

enum guarded_state { GUARDED_FREE, GUARDED_BUSY, GUARDED_LIVE };

struct guarded_stack {
    void *frames[GUARDED_FRAMES_MAX];
    unsigned count;
};

struct guarded_slot {
    _Atomic unsigned state;         /* (atomic: slot) enum guarded_state */
    _Atomic uint64_t freed_at;      /* (atomic: hint) number of its last free; 0: was never used */
    uintptr_t block;                /* (owner) address, kept when it is freed */
    size_t size;                    /* (owner) asked for */
    struct guarded_stack allocated; /* (owner) */
    struct guarded_stack freed;     /* (owner) count 0 while the block lives */
};

enum guarded_fault {
    GUARDED_OVERRUN,
    GUARDED_UNDERRUN,
    GUARDED_USE_AFTER_FREE,
    GUARDED_DOUBLE_FREE,
    GUARDED_INVALID_FREE,
    GUARDED_CHANGED, /* bytes beside the block, found when it is freed */
};

/* Starts if options.guarded says so; in the constructor, once options are read. */
void guarded_start(void);

extern PRIM_HIDDEN _Atomic uint32_t guarded_was_tried; /* (atomic: hint) to make the pool, once */

PRIM_INLINE void guarded_fork_child(void) {
    store_relaxed(&guarded_was_tried, false);
}

/* One screen on standard error. The verb says what was done to the address: "write", "free". */
void guarded_report(enum guarded_fault fault, const char *verb, uintptr_t address,
                    const struct guarded_slot *slot, const struct guarded_stack *now);

/* The calling thread's stack, without the frames of this library where it is one of its own. */
void guarded_capture(struct guarded_stack *stack);

#endif
