/* sampling_budget.c - see sampling_budget.h. */
#include "objects/sampling_budget.h"

#include "base/bits.h"
#include "os/machine.h"

enum {
    END_FACTOR = 2,    /* a sample's end costs as much again */
    SEEN_FACTOR = 2,   /* shrink if it could have paid so much at a sample ... */
    UNSEEN_FACTOR = 4, /* ... or without one */
};

static bool take(struct sampling_budget *budget) {
    uint32_t is_free = false;
    return compare_exchange_acquire(&budget->is_taken, &is_free, true); /* order pair: budget */
}

void sampling_budget_give(struct sampling_budget *budget) {
    store_release(&budget->is_taken, false); /* order pair: budget */
}

PRIM_COLD struct sampling_group *sampling_budget_group(struct sampling_budget *budget,
                                                       size_t size) {
    return &budget->groups[sampling_budget_index(size)];
}

/* Another thread may have read the clock later and been here before. */
static uint64_t ticks_between(uint64_t then, uint64_t now) {
    return now > then ? now - then : 0;
}

/* Half a millisecond, a few hundred samples. A sample that costs more than that does not pay the
 * rest: it is somebody else's, who had our processor. */
static uint64_t burst(void) {
    return machine_ticks_a_ms() / 2;
}

static void earn(struct sampling_budget *budget, double share, uint64_t now) {
    uint64_t ticks = ticks_between(budget->credited_at, now);
    double credit = budget->credit + (double)ticks * share;
    double most = (double)burst();
    budget->credit = credit < most ? credit : most;
    budget->credited_at += ticks;
}

PRIM_COLD unsigned sampling_budget_stretch(struct sampling_budget *budget,
                                           struct sampling_group *group, uint64_t now) {
    unsigned stretch = load_relaxed(&group->stretch);
    uint64_t unseen = ticks_between(load_relaxed(&group->seen_at), now);
    if (stretch && unseen > load_relaxed(&group->wait) && take(budget)) {
        earn(budget, load_relaxed(&budget->share), now);
        stretch = load_relaxed(&group->stretch);
        for (; stretch && unseen > load_relaxed(&group->wait) && budget->credit >= 0; stretch--) {
            unseen /= 2;
        }
        store_relaxed(&group->stretch, stretch);
        store_relaxed(&group->seen_at, now);
        sampling_budget_give(budget);
    }
    return stretch;
}

PRIM_COLD void sampling_budget_pay(struct sampling_budget *budget, struct sampling_group *group,
                                   uint64_t now, uint64_t cost) {
    double share = load_relaxed(&budget->share);
    if (share <= 0 || !take(budget)) { /* nobody has a budget any more; or another one pays */
        return;
    }
    double price = END_FACTOR * (double)bits_min(cost, burst());
    earn(budget, share, now);
    budget->credit -= price;
    double debt = -budget->credit;
    double most = debt > price ? debt : price;
    double earned = share * (double)ticks_between(load_relaxed(&group->seen_at), now);
    unsigned stretch = load_relaxed(&group->stretch);
    if (earned < debt) {
        stretch += stretch < SAMPLING_STRETCH_MAX;
    } else if (earned > SEEN_FACTOR * most) {
        stretch -= stretch > 0;
    }
    store_relaxed(&group->stretch, stretch);
    store_relaxed(&group->seen_at, now);
    store_relaxed(&group->wait, (uint64_t)(UNSEEN_FACTOR * most / share));
    sampling_budget_give(budget);
}

PRIM_COLD void sampling_budget_reset(struct sampling_budget *budget, double share) {
    store_relaxed(&budget->share, share);
    for (unsigned i = 0; i < SAMPLING_GROUPS; i++) {
        store_relaxed(&budget->groups[i].stretch, 0);
        store_relaxed(&budget->groups[i].seen_at, 0);
    }
    if (take(budget)) { /* else somebody is just paying, and has what is left of the burst */
        budget->credit = (double)burst();
        budget->credited_at = 0;
        sampling_budget_give(budget);
    }
}
