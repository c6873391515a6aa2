/* sampler.c - see sampler.h: users, draws, and the blocks that are sampled. */
#include "objects/sampler.h"

#include <string.h>

#include "objects/arena.h"
#include "objects/large.h"
#include "objects/sampling_budget.h"
#include "objects/thread_cache.h"
#include "os/machine.h"

_Atomic unsigned sampler_round;
_Atomic size_t sampler_size_max;
_Atomic size_t sampler_size_min = SMALL_SIZE_MAX + 1;

static _Atomic(struct sampler_user *) users[SAMPLER_USERS_MAX]; /* (atomic: sampler) */
static _Atomic unsigned user_count;         /* (atomic: hint) behind the last user */
static _Atomic(struct arena *) block_arena; /* (atomic: shared arena) */
static _Atomic unsigned budgeted; /* (atomic: hint) a bit for each user who has a budget */
static _Atomic unsigned told;     /* (atomic: hint) a bit for each user who does more than place */
static PRIM_FAR struct sampling_budget budget;

uint64_t sampler_random(uint64_t *state) {
    uint64_t mixed = *state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

/* In (0, 1]. */
static double throw_unit(uint64_t *random) {
    return (double)((sampler_random(random) >> 11) + 1) * 0x1p-53;
}

/* The natural logarithm of a normal number, by the series of the inverse hyperbolic tangent. */
static double logarithm(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52;
    memcpy(&value, &bits, sizeof value); /* in [1, 2) */
    if (value > 1.4142135623730951) {
        value /= 2;
        exponent++;
    }
    double ratio = (value - 1) / (value + 1);
    double square = ratio * ratio;
    double sum = 0;
    for (int i = 17; i > 0; i -= 2) {
        sum = sum * square + 1.0 / i;
    }
    return 2 * ratio * sum + exponent * 0.6931471805599453;
}

/* Whole halvings of exp(-x) are taken out of the argument. For a quarter of what is left, the
 * series of 1 - exp(-x), which is exact to the last digits for small arguments, too; and
 * 1 - (1 - p)^2 to double it. */
PRIM_COLD double sampler_probability(size_t size, double interval) {
    static const double reciprocals[] = {1,       1.0 / 2, 1.0 / 3, 1.0 / 4,
                                         1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8};
    double x = (double)size / interval;
    if (x > 40) {
        return 1;
    }
    unsigned halvings = (unsigned)(x * 1.4426950408889634);
    x = (x - halvings * 0.6931471805599453) / 4;
    double p = 0;
    for (int i = 8; i-- > 0;) {
        p = x * reciprocals[i] * (1 - p);
    }
    p *= 2 - p;
    p *= 2 - p;
    return halvings ? 1 - (1 - p) / (double)((uint64_t)1 << halvings) : p;
}

PRIM_COLD uint64_t sampler_draw(uint64_t *random, double mean, size_t counted_size) {
    return (uint64_t)(-logarithm(throw_unit(random)) * mean / (double)counted_size);
}

static struct sampler_user *user_at(unsigned index) {
    return load_acquire(&users[index]); /* order pair: sampler user */
}

/* Whether one of these users has a budget. */
static bool is_budgeted(unsigned mask) {
    return mask & load_relaxed(&budgeted);
}

static size_t greatest_wanted(const struct sampler_user *user) {
    return user->size_max ? user->size_max : SIZE_MAX;
}

/* 0 if the user does not want such a size, or there is none. */
static double interval_of(unsigned index, size_t counted_size, unsigned stretch) {
    struct sampler_user *user = user_at(index);
    if (!user || counted_size > greatest_wanted(user)) {
        return 0;
    }
    stretch = is_budgeted(1u << index) ? stretch : 0;
    return (double)load_relaxed(&user->interval) * (double)(1u << stretch);
}

PRIM_COLD unsigned sampler_stretch(size_t counted_size) {
    struct sampling_group *group = sampling_budget_group(&budget, counted_size);
    bool is_stretched = load_relaxed(&group->stretch) != 0;
    return is_stretched ? sampling_budget_stretch(&budget, group, machine_ticks()) : 0;
}

PRIM_COLD double sampler_mean(unsigned index, size_t counted_size, unsigned stretch) {
    double rate = 0;
    for (; index < load_relaxed(&user_count); index++) {
        double interval = interval_of(index, counted_size, stretch);
        rate += interval > 0 ? 1 / interval : 0;
    }
    return rate > 0 ? 1 / rate : 0;
}

/* 1 - exp(-x) lies between x - x^2 / 2 and x, which mostly decides. */
PRIM_COLD bool sampler_chooses(uint64_t *random, struct sample *sample) {
    size_t size = sample->counted_size;
    sample->stretch = sampler_stretch(size);
    double mean = sampler_mean(0, size, sample->stretch);
    if (mean == 0) {
        return false;
    }
    double x = (double)size / mean;
    double thrown = throw_unit(random);
    return thrown <= x && (thrown <= x - x * x / 2 || thrown <= sampler_probability(size, mean));
}

/* Somebody is known to be hit: one bit for each who is. The first user is, with its own probability
 * in proportion to that of anybody; once there is one, the others are as likely as ever. */
static PRIM_COLD unsigned choose_users(uint64_t *random, const struct sample *sample) {
    size_t size = sample->counted_size;
    unsigned chosen = 0;
    for (unsigned i = 0; i < load_relaxed(&user_count); i++) {
        double interval = interval_of(i, size, sample->stretch);
        if (interval > 0) {
            double mean = sampler_mean(i, size, sample->stretch);
            bool is_last = mean > interval / 1.0000001;
            if (is_last && !chosen) {
                return 1u << i; /* somebody is hit, so this one is */
            }
            double p = sampler_probability(size, interval);
            double any = chosen ? 1 : sampler_probability(size, mean);
            chosen |= (unsigned)(throw_unit(random) * any <= p) << i;
        }
    }
    return chosen;
}

static struct sampler_user *chosen_user(unsigned chosen, unsigned index) {
    return chosen >> index & 1 ? user_at(index) : NULL;
}

static void *place(unsigned chosen, const struct sample *sample) {
    for (unsigned i = 0; i < load_relaxed(&user_count); i++) {
        struct sampler_user *user = chosen_user(chosen, i);
        void *block = user && user->place ? user->place(sample) : NULL;
        if (block) {
            return block;
        }
    }
    return NULL;
}

static PRIM_COLD void begin(unsigned chosen, void *block, struct sample *sample) {
    for (unsigned i = 0; i < load_relaxed(&user_count); i++) {
        struct sampler_user *user = chosen_user(chosen, i);
        double interval = interval_of(i, sample->counted_size, sample->stretch);
        if (user && user->begin && interval > 0) {
            sample->weight = 1 / sampler_probability(sample->counted_size, interval);
            user->begin(block, sample);
        }
    }
}

/* If it was for somebody who has a budget. */
static PRIM_COLD void pay(unsigned chosen, size_t counted_size, uint64_t start) {
    if (is_budgeted(chosen)) {
        uint64_t now = machine_ticks();
        struct sampling_group *group = sampling_budget_group(&budget, counted_size);
        sampling_budget_pay(&budget, group, now, now - start);
    }
}

/* A block of just the size of the class that would serve it: realloc leaves it where it is when it
 * would leave such a one, or else more or fewer would be drawn anew than are sampled. */
static void *allocate_known(const struct sample *sample) {
    size_t size = sample->counted_size;
    struct arena_request request = {.size = size, .alignment = sample->alignment};
    if (size > ARENA_SIZE_MAX) { /* ends with its slices */
        request.alignment = SLICE_SIZE;
        request.offset = size;
    }
    return arena_allocate(load_acquire(&block_arena), request, NULL); /* order pair: shared arena */
}

PRIM_COLD void *sampler_allocate(uint64_t *random, struct sample *sample) {
    uint64_t start = machine_ticks();
    unsigned chosen = choose_users(random, sample);
    void *block = place(chosen, sample);
    if (!block && (chosen & load_relaxed(&told))) {
        block = allocate_known(sample);
    }
    if (block) {
        begin(chosen, block, sample);
    }
    pay(chosen, sample->counted_size, start);
    return block;
}

PRIM_COLD void sampler_begin_large(uint64_t *random, void *block, struct sample *sample) {
    uint64_t start = machine_ticks();
    unsigned chosen = choose_users(random, sample);
    if (chosen & load_relaxed(&told)) {
        if (span_class_of(block) == CLASS_LARGE) {
            span_of_block(block)->sampled = SPAN_SAMPLED;
        }
        begin(chosen, block, sample);
        pay(chosen, sample->counted_size, start);
    }
}

PRIM_COLD void sampler_end(void *block, size_t size) {
    for (unsigned i = 0; i < load_relaxed(&user_count); i++) {
        struct sampler_user *user = user_at(i);
        if (user && user->end) {
            user->end(block, size);
        }
    }
}

/* The user that places: there is one at most. */
static struct sampler_user *placer(void) {
    struct sampler_user *user = NULL;
    for (unsigned i = 0; i < load_relaxed(&user_count) && !(user && user->place); i++) {
        user = user_at(i);
    }
    return user;
}

PRIM_COLD void sampler_release_placed(void *block) {
    sampler_end(block, 0);
    placer()->release(block);
}

PRIM_COLD size_t sampler_placed_size(const void *block) {
    return placer()->usable_size(block);
}

static bool add_user(struct sampler_user *user) {
    for (unsigned i = 0; i < SAMPLER_USERS_MAX; i++) {
        struct sampler_user *expected = NULL;
        if (load_relaxed(&users[i]) == user ||
            compare_exchange_release(&users[i], &expected, user) || /* order pair: sampler user */
            expected == user) {
            if (load_relaxed(&user_count) <= i) {
                store_relaxed(&user_count, i + 1);
            }
            return true;
        }
    }
    return false;
}

static bool make_arena(void) {
    return arena_at(&block_arena, ARENA_INTERNAL, "sampled", true) != NULL;
}

/* Sums up what the users are. There is one account for all who have a budget: together they may
 * spend what they may spend alone. */
static void sum_up_users(void) {
    unsigned tells = 0;
    unsigned budgets = 0;
    unsigned share = 0;
    size_t most = 0;
    for (unsigned i = 0; i < load_relaxed(&user_count); i++) {
        struct sampler_user *user = user_at(i);
        if (user && load_relaxed(&user->interval)) {
            tells |= (unsigned)(user->begin != NULL) << i;
            unsigned budget_of_user = load_relaxed(&user->budget);
            budgets |= (unsigned)(budget_of_user != 0) << i;
            share += budget_of_user;
            most = bits_max(most, greatest_wanted(user));
        }
    }
    store_relaxed(&sampler_size_max, most);
    store_relaxed(&told, tells);
    store_relaxed(&budgeted, budgets);
    sampling_budget_reset(&budget, share * 1e-6);
}

/* Rounds are never 0 again. */
static PRIM_COLD void change(struct sampler_user *user, size_t interval) {
    store_relaxed(&user->interval, interval);
    sum_up_users();
    if (add_release(&sampler_round, 2) == 0) { /* order pair: sampler */
        add_release(&sampler_round, 1);        /* order pair: sampler */
        store_relaxed(&sampler_size_min, 0);
    }
    thread_cache_poke();
}

PRIM_COLD bool sampler_start(struct sampler_user *user, size_t interval) {
    if (!make_arena() || !add_user(user)) {
        return false;
    }
    change(user, interval);
    return true;
}

void sampler_stop(struct sampler_user *user) {
    if (load_relaxed(&user->interval)) {
        change(user, 0);
    }
}

void sampler_fork_child(void) {
    if (load_relaxed(&budget.is_taken)) { /* else its page need not be copied */
        sampling_budget_give(&budget);
    }
}
