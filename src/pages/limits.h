/* limits.h - how much the process may take: of memory, and of the kernel's mappings.
 *
 * Two limits on what the heap holds: slices in use and dirty ones, and the library's own
 * structures. Above the soft one (options.soft_limit; by itself 85 % of what the control group may
 * have, or its memory.high where that is lower) the process is pressed: free pages go back at once
 * and thread caches shrink. Beyond the hard one (options.hard_limit) nothing is handed out.
 *
 * Most processes are too small to come near any limit, so nothing is asked of the kernel before
 * somebody needs to know it: the control group when the heap outgrows LIMITS_LOOK_SIZE, and again,
 * because the limits of running containers change, while it grows or is maintained, at most every
 * LIMITS_LOOK_INTERVAL_MS. */
#ifndef PRIM_PAGES_LIMITS_H
#define PRIM_PAGES_LIMITS_H

#include "base/atomics.h"

enum { LIMITS_LOOK_SIZE = 16 << 20, LIMITS_LOOK_INTERVAL_MS = 5000 };

#define LIMITS_NONE SIZE_MAX

struct limits {
    _Atomic size_t group;          /* (atomic: hint) the control group's part of the soft limit */
    _Atomic uint64_t next_look_ms; /* (atomic: hint) at the group again; 0: nobody did yet */
    _Atomic bool is_look_due;      /* (atomic: hint) heap has grown, or time passed */
    _Atomic size_t held_peak;      /* (atomic: hint) most that the heap held at a time, in bytes */
    _Atomic bool is_pressed;       /* (atomic: hint) by the last that was noted */
};

extern PRIM_HIDDEN struct limits limits;

/* Whether the heap holds more than the soft limit; no more than a load. */
PRIM_INLINE bool limits_are_pressed(void) {
    return load_relaxed(&limits.is_pressed);
}

/* Whether the heap may hold so many bytes: not beyond the hard limit. */
bool limits_allow(size_t resident_bytes);

/* Whether it would be pressed with so many bytes. */
bool limits_would_press(size_t resident_bytes);

/* What the heap holds has changed to so many bytes. */
void limits_note_resident(size_t resident_bytes);

/* The same where it is no peak: less than before, or counted in the middle of a step. */
void limits_note_less(size_t resident_bytes);

/* The free bytes that a pressed process may keep: what saves a system call for each small span. */
size_t limits_slack(void);

/* The heap has taken address space, now so much. May be called under any lock. */
void limits_note_growth(size_t mapped_bytes);

/* Time has passed: the control group is to be looked at again, if it ever was. */
void limits_note_time(uint64_t now_ms);

void limits_look_now(const char *root);
void limits_look_when_due(void);

/* To be called under no lock after the heap may have grown, in a call that does little else: a look
 * takes as long as all that a call may otherwise do. */
PRIM_INLINE void limits_look(void) {
    if (PRIM_UNLIKELY(load_relaxed(&limits.is_look_due))) {
        limits_look_when_due();
    }
}

/* How many of the kernel's mappings may be of our making: a quarter of vm.max_map_count, because a
 * process without free mappings can neither map, unmap nor start threads. Read at the first call,
 * which may come under any lock. */
size_t limits_map_budget(void);

#endif
