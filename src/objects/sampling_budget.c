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

/* What so many ticks earn. */
static double earned_in(const struct sampling_budget *budget, uint64_t ticks) {
    return (double)ticks * budget->share;
}

/* Half a millisecond, a few hundred samples. A sample that costs more than that does not pay the
 * rest: it is somebody else's, who had our processor. */
static uint64_t burst(void) {
    return machine_ticks_a_ms() / 2;
}

static void earn(struct sampling_budget *budget, uint64_t now) {
    double credit = budget->credit + earned_in(budget, now - budget->credited_at);
    double most = (double)burst();
    budget->credit = credit < most ? credit : most;
    budget->credited_at = now;
}

PRIM_COLD unsigned sampling_budget_stretch(struct sampling_budget *budget,
                                           struct sampling_group *group, uint64_t now) {
    unsigned stretch = load_relaxed(&group->stretch);
    uint64_t unseen = now - load_relaxed(&group->seen_at);
    if (stretch && unseen > load_relaxed(&group->wait) && take(budget)) {
        earn(budget, now);
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
    if (!take(budget)) {
        return;
    }
    double price = END_FACTOR * (double)bits_min(cost, burst());
    earn(budget, now);
    budget->credit -= price;
    double debt = -budget->credit;
    double most = debt > price ? debt : price;
    double earned = earned_in(budget, now - load_relaxed(&group->seen_at));
    unsigned stretch = load_relaxed(&group->stretch);
    if (earned < debt) {
        stretch += stretch < SAMPLING_STRETCH_MAX;
    } else if (earned > SEEN_FACTOR * most) {
        stretch -= stretch > 0;
    }
    store_relaxed(&group->stretch, stretch);
    store_relaxed(&group->seen_at, now);
    store_relaxed(&group->wait, (uint64_t)(UNSEEN_FACTOR * most / budget->share));
    sampling_budget_give(budget);
}

PRIM_COLD void sampling_budget_reset(struct sampling_budget *budget, double share) {
    if (!take(budget)) {
        return;
    }
    budget->share = share;
    budget->credit = (double)burst();
    for (unsigned i = 0; i < SAMPLING_GROUPS; i++) {
        store_relaxed(&budget->groups[i].stretch, 0);
    }
    sampling_budget_give(budget);
}
