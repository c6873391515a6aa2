/* maintenance.c - see maintenance.h. */
#include "objects/maintenance.h"

#include "base/bits.h"
#include "objects/hardened.h"
#include "objects/slab.h"
#include "objects/thread_cache.h"
#include "os/confined.h"
#include "os/loader.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/thread.h"
#include "pages/huge.h"
#include "settings/options.h"

enum {
    LITTLE = 1 << 20,    /* not worth staying for */
    QUIET_WINDOWS = 2,   /* without anything to return, before we leave */
    WINDOW_MIN_MS = 20,  /* however short the purge delay */
    LOOK_SETS = 12,      /* of slabs, counted by one look */
    END_MS = 1000,       /* waited for the thread's end at most: it may be held up by a handler */
    SHARE_MS = 1000,     /* the least time over which the program's share of a processor is known */
    SHARE_US_A_MS = 250, /* who used less of a processor than that waits most of the time */
};

#define CANNOT_START SIZE_MAX
#define STARTING (-1)

_Atomic size_t maintenance_threshold = CANNOT_START; /* (atomic: threshold) */
_Atomic size_t maintenance_least = MAINTENANCE_ALONE;

static _Atomic uint32_t must_leave; /* (atomic: hint) a futex, too */

/* (atomic: hint) The thread's number, also when it has ended unnoticed; 0: there is none; STARTING:
 * it is not known yet. */
static _Atomic int number;

static size_t returnable_bytes(void) {
    return purge_returnable_bytes() + slab_returnable_bytes();
}

static bool is_wanted(void) {
    return options.maintenance && options_return_idle() && !is_confined();
}

void maintenance_ask_again(void) {
    size_t refused = MAINTENANCE_ALONE;
    compare_exchange_relaxed(&maintenance_threshold, &refused, MAINTENANCE_MIN);
}

/* Several threads at once may count sets twice, or not: who starts the thread counts again. Nothing
 * is to be counted while all that the heap holds would not do. */
void maintenance_look(void) {
    static _Atomic unsigned next_set;    /* (atomic: hint) to be counted */
    static _Atomic size_t counted_bytes; /* (atomic: hint) in the sets before that one */
    size_t threshold = load_relaxed(&maintenance_threshold);
    size_t least = load_relaxed(&maintenance_least);
    bool is_small = threshold <= least && page_heap_resident_bytes() < least;
    if (is_small || threshold == CANNOT_START) {
        return;
    }
    unsigned set = load_relaxed(&next_set);
    size_t bytes = slab_returnable_some(&set, LOOK_SETS);
    bytes += load_relaxed(&counted_bytes);
    store_relaxed(&next_set, set);
    store_relaxed(&counted_bytes, set ? bytes : 0);
    if (set) {
        return;
    }
    bytes += purge_returnable_bytes();
    size_t lowered = bits_min(threshold, bits_max(least, bytes + least));
    size_t next = bytes >= bits_max(threshold, least) ? 0 : lowered;
    if (next != threshold) {
        compare_exchange_relaxed(&maintenance_threshold, &threshold, next);
    }
}

/* Sleeps until the window is over, or until we must leave. The clock decides: a change of user
 * wakes us too early. */
static void wait_for_end_of_window(void) {
    uint64_t length = bits_max(options.purge_delay, WINDOW_MIN_MS);
    uint64_t start = machine_clock_ms();
    uint64_t passed = 0;
    while (passed < length && !load_relaxed(&must_leave)) {
        thread_sleep(&must_leave, 0, length - passed);
        passed = machine_clock_ms() - start;
    }
}

/* Windows, until there is nothing left to do. Returns the threshold for the next start. */
static size_t work(void) {
    unsigned quiet = 0; /* windows without anything returned */
    unsigned stuck = 0; /* of these, windows in which the program did not stir either */
    size_t in_slabs = slab_returnable_bytes();
    size_t least = load_relaxed(&maintenance_least);
    while (!load_relaxed(&must_leave) && is_wanted()) {
        wait_for_end_of_window();
        if (load_relaxed(&must_leave) || !is_wanted()) {
            break;
        }
        bool has_young;
        size_t returned = purge_end_window(quiet > 0, &has_young) + slab_purge(false);
        size_t still_in_slabs = slab_returnable_bytes();
        bool stirs = has_young || still_in_slabs != in_slabs;
        in_slabs = still_in_slabs;
        quiet = returned ? 0 : quiet + 1;
        stuck = returned || stirs ? 0 : stuck + 1;
        size_t left = returnable_bytes();
        if (left < LITTLE || (quiet >= QUIET_WINDOWS && left < least)) {
            break;
        }
        if (stuck >= QUIET_WINDOWS) { /* locked pages, pages of slabs with a block each */
            return left + least;
        }
    }
    return least;
}

/* The body of the thread. Who frees much just before the threshold is back finds no thread to
 * start: so we look once more ourselves. */
static void maintain(void) {
    store_relaxed(&number, thread_number());
    maintenance_note_threads();
    thread_cache_refuse();
    thread_name("primalloc");
    purge_open_window();
    slab_purge(false); /* what it returns was idle before: the next one begins here */
    for (;;) {
        size_t threshold = work();
        huge_return_waste();
        hardened_trim();
        bool may_stay = !load_relaxed(&must_leave) && is_wanted();
        atomic_store_explicit(&maintenance_threshold, threshold, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst);
        if (!may_stay || returnable_bytes() < threshold ||
            !compare_exchange_relaxed(&maintenance_threshold, &threshold, CANNOT_START)) {
            return;
        }
    }
}

/* libc holds a lock that pthread_create takes while it frees what belonged to ended threads: such
 * calls come from its own code. Where that cannot be told from the program's, the size can: what
 * libc frees there is small. */
static bool is_safe_caller(const void *caller, bool is_large) {
    return loader_knows_libraries() ? !loader_is_library_code(caller) : is_large;
}

/* Whether the program used little of a processor since it was last asked. */
static PRIM_COLD bool waits_mostly(void) {
    static _Atomic uint64_t asked_ms;     /* (atomic: hint) */
    static _Atomic uint64_t used_then_us; /* (atomic: hint) */
    uint64_t now = machine_clock_ms();
    uint64_t then = load_relaxed(&asked_ms);
    if (now - then < SHARE_MS) {
        return false;
    }
    uint64_t used = machine_process_time_us();
    bool waits = then && used - load_relaxed(&used_then_us) < (now - then) * SHARE_US_A_MS;
    store_relaxed(&asked_ms, now);
    store_relaxed(&used_then_us, used);
    return waits;
}

/* A process with one thread that has less than would start ours in any case. */
static PRIM_COLD bool is_refused(size_t threshold) {
    if (threshold == 0 || purge_returnable_bytes() >= load_relaxed(&maintenance_least)) {
        return false;
    }
    if (waits_mostly()) {
        maintenance_note_threads();
        return false;
    }
    compare_exchange_relaxed(&maintenance_threshold, &threshold, MAINTENANCE_ALONE);
    return true;
}

static void consider_start(const void *caller, bool is_large) {
    size_t threshold = load_relaxed(&maintenance_threshold);
    if (threshold == CANNOT_START || is_refused(threshold) || !is_wanted() ||
        !is_safe_caller(caller, is_large) || thread_cache_has_ended()) {
        return;
    }
    size_t returnable = returnable_bytes();
    size_t least = load_relaxed(&maintenance_least);
    thread_cache_nest(); /* it takes a lock, and a signal's handler may come here as well */
    least += purge_bare_bytes(returnable > least ? returnable - least : 0);
    thread_cache_leave();
    bool is_worth_it = returnable >= least;
    if (!compare_exchange_relaxed(&maintenance_threshold, &threshold,
                                  is_worth_it ? CANNOT_START : least) ||
        !is_worth_it) {
        return;
    }
    if (!process_is_home()) { /* a child that shares our memory: not its business */
        store_relaxed(&maintenance_threshold, threshold);
        return;
    }
    store_relaxed(&must_leave, 0);
    store_relaxed(&number, STARTING);
    /* qemu dies where a child starts a thread whose parent had several at the fork. */
    if (memory_is_emulated() ||
        !thread_start(maintain)) { /* no thread to be had: not to be tried at every turn */
        store_relaxed(&number, 0);
        store_relaxed(&maintenance_threshold,
                      returnable_bytes() + load_relaxed(&maintenance_least));
    }
}

void maintenance_start(const void *caller, bool is_large) {
    if (confined_may_ask()) { /* for a thread, for the time that the process has used */
        consider_start(caller, is_large);
        confined_asked();
    }
}

void maintenance_note_threads(void) {
    store_relaxed(&maintenance_least, MAINTENANCE_MIN);
    maintenance_ask_again();
}

void maintenance_note_main(void) {
    process_note_home();
    store_relaxed(&maintenance_threshold, MAINTENANCE_MIN);
}

void maintenance_leave(void) {
    if (load_relaxed(&maintenance_threshold) == CANNOT_START) {
        store_relaxed(&must_leave, 1);
        thread_wake(&must_leave);
    }
}

bool maintenance_end(void) {
    maintenance_leave();
    for (unsigned i = 0; i < END_MS; i++) {
        int thread = load_relaxed(&number);
        if (thread != STARTING && !thread_is_there(thread)) {
            compare_exchange_relaxed(&number, &thread, 0); /* a confined process cannot ask again */
            return true;
        }
        thread_sleep(&must_leave, load_relaxed(&must_leave), 1);
    }
    return false;
}

void maintenance_confine(void) {
    if (!is_confined()) {
        confined_begin();
        for (unsigned i = 0; i < END_MS && confined_is_asking(); i++) {
            thread_sleep(&must_leave, load_relaxed(&must_leave), 1);
        }
        maintenance_end();
    }
}

void maintenance_fork_child(void) {
    confined_fork_child();
    store_relaxed(&number, 0);
    store_relaxed(&maintenance_least, MAINTENANCE_ALONE);
    if (process_has_home()) {
        maintenance_note_main();
    }
}
