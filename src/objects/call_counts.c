/* call_counts.c - see call_counts.h. */
#include "objects/call_counts.h"

#include "base/atomics.h"
#include "objects/size_class.h"

enum { STRIPE_COUNT = 16 };

static PRIM_FAR struct stripe {
    _Alignas(PRIM_CACHE_LINE) _Atomic uint64_t reallocations; /* (atomic: counter) */
    struct {
        _Atomic uint64_t allocations;     /* (atomic: counter) */
        _Atomic uint64_t frees;           /* (atomic: counter) */
        _Atomic uint64_t requested_bytes; /* (atomic: counter) */
    } classes[BIN_COUNT];
} stripes[STRIPE_COUNT];

static PRIM_FAR struct {
    _Atomic int64_t live; /* (atomic: counter) */
    _Atomic int64_t peak; /* (atomic: counter) never falls */
} levels[BIN_COUNT];

static void raise_peak(unsigned object_class) {
    int64_t live = add_relaxed(&levels[object_class].live, 1) + 1;
    int64_t peak = load_relaxed(&levels[object_class].peak);
    while (live > peak && !compare_exchange_relaxed(&levels[object_class].peak, &peak, live)) {}
}

/* A thread's stack tells threads apart: their stacks lie in different pages. */
static struct stripe *own_stripe(void) {
    char here;
    uint64_t mixed = ((uintptr_t)&here >> 14) * 0x9e3779b97f4a7c15u;
    return &stripes[mixed >> 60];
}

void call_counts_allocation(unsigned object_class, size_t requested_bytes) {
    struct stripe *stripe = own_stripe();
    add_relaxed(&stripe->classes[object_class].allocations, 1);
    add_relaxed(&stripe->classes[object_class].requested_bytes, requested_bytes);
    raise_peak(object_class);
}

void call_counts_frees(unsigned object_class, size_t count) {
    add_relaxed(&own_stripe()->classes[object_class].frees, count);
    subtract_relaxed(&levels[object_class].live, (int64_t)count);
}

void call_counts_reallocation(void) {
    add_relaxed(&own_stripe()->reallocations, 1);
}

struct call_counts call_counts_of(unsigned object_class) {
    struct call_counts sum = {.peak = (uint64_t)load_relaxed(&levels[object_class].peak)};
    for (unsigned i = 0; i < STRIPE_COUNT; i++) {
        sum.frees += load_relaxed(&stripes[i].classes[object_class].frees);
        sum.allocations += load_relaxed(&stripes[i].classes[object_class].allocations);
        sum.requested_bytes += load_relaxed(&stripes[i].classes[object_class].requested_bytes);
    }
    return sum;
}

uint64_t call_counts_reallocations(void) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < STRIPE_COUNT; i++) {
        sum += load_relaxed(&stripes[i].reallocations);
    }
    return sum;
}
