/* sampling_budget.h - what samples may cost: a share of the time that passes.
 *
 * Samples come by bytes, so a program that allocates much and does little with it would pay without
 * bound. An account, one for all threads, earns a share of the time, up to a small burst, and each
 * sample pays for itself and for its end, all by one clock: so the rule holds on slow machines and
 * under tools that slow a program down, too. What does not fit makes samples rarer by powers of
 * two: the interval of the size class they come from is stretched.
 *
 * Which classes are: those that sample most. A class whose samples come so seldom that the share of
 * the time in between would pay the whole debt goes on as it is, however deep the others are in it.
 * So what there is is divided evenly, and a slow leak beside a storm keeps its resolution.
 *
 * Whoever draws asks for the stretch before, and the sample's weight follows from that answer. Any
 * thread may call anything at any time: who finds the account in use by another goes without. */
#ifndef PRIM_OBJECTS_SAMPLING_BUDGET_H
#define PRIM_OBJECTS_SAMPLING_BUDGET_H

#include "base/atomics.h"
#include "objects/size_class.h"

enum {
    SAMPLING_GROUPS = CLASS_COUNT + 47, /* a class each; greater ones by powers of two */
    SAMPLING_STRETCH_MAX = 20,
};

/* Sizes that are stretched together. */
struct sampling_group {
    _Atomic unsigned stretch; /* (atomic: hint) of the interval, a power of two */
    _Atomic uint64_t seen_at; /* (atomic: hint) ticks, of its last sample or change */
    _Atomic uint64_t wait;    /* (atomic: hint) so long without a sample makes it shrink */
};

struct sampling_budget {
    _Atomic uint32_t is_taken; /* (atomic: budget) */
    _Atomic double share;      /* (atomic: hint) of the time */
    double credit;             /* (owner) ticks that may be spent; below 0: owed */
    uint64_t credited_at;      /* (owner) ticks; before the first time there is the whole burst */
    struct sampling_group groups[SAMPLING_GROUPS];
};

/* Which group a counted size is in. */
PRIM_INLINE unsigned sampling_budget_index(size_t size) {
    return size <= MEDIUM_SIZE_MAX ? size_class_of(size) : CLASS_COUNT + bits_highest(size) - 17;
}

struct sampling_group *sampling_budget_group(struct sampling_budget *budget, size_t size);

/* By which power of two the group's interval is stretched; now in ticks. */
unsigned sampling_budget_stretch(struct sampling_budget *budget, struct sampling_group *group,
                                 uint64_t now);

/* A sample of the group took so many ticks. */
void sampling_budget_pay(struct sampling_budget *budget, struct sampling_group *group, uint64_t now,
                         uint64_t cost);

/* Nothing is stretched, the burst is there, and so much is earned of each tick. */
void sampling_budget_reset(struct sampling_budget *budget, double share);

/* Nobody uses the account: fork's child says so. */
void sampling_budget_give(struct sampling_budget *budget);

#endif
