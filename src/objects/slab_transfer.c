/* slab_transfer.c - see slab_transfer.h. */
#include "objects/slab_transfer.h"

#include <limits.h>

#include "pages/limits.h"

enum {
    LISTED_MAX = 1 << 20, /* bytes of a class that a shard keeps */
    MUCH_MORE = 4,        /* times what is wanted: such a list is cut */
    TICK_SETS = 4,        /* visited by a tick */
    LITTLE_DIVISOR = 4,   /* less than such a part of a class would hardly empty a slab */
    COUNT_SHIFT = 48,     /* above all addresses */
    IS_REST = 1,          /* below them: what slab_release_some has left */
};

_Atomic bool slab_tick_is_due;
_Atomic bool slab_transfer_is_left[CLASS_COUNT + 1];

static uint64_t *link_of(void *list) {
    return (uint64_t *)list + 1;
}

static unsigned length_of(void *list) {
    return (unsigned)(*link_of(list) >> COUNT_SHIFT);
}

static bool is_rest(void *list) {
    return *link_of(list) & IS_REST;
}

static void set_count(struct slab_set *set, struct slab_set_rest *rest, uint32_t count) {
    store_relaxed(&rest->listed_count, count);
    set->has_lists = rest->lists != NULL;
}

static void push(struct slab_set *set, struct slab_set_rest *rest, void *list, unsigned count) {
    *link_of(list) = (uintptr_t)rest->lists | (uint64_t)count << COUNT_SHIFT;
    rest->lists = list;
    set_count(set, rest, load_relaxed(&rest->listed_count) + count);
}

/* Lists that begin with one block, which was freed twice, make a circle: the count ends it. */
static void *pop(struct slab_set *set, struct slab_set_rest *rest) {
    void *list = rest->lists;
    uint32_t count = load_relaxed(&rest->listed_count);
    uint64_t next = *link_of(list) & (((uint64_t)1 << COUNT_SHIFT) - 1);
    rest->lists = (void *)(uintptr_t)(next & ~(uint64_t)IS_REST);
    if (length_of(list) >= count || !rest->lists) {
        rest->lists = NULL;
        count = length_of(list);
    }
    set_count(set, rest, count - length_of(list));
    return list;
}

unsigned slab_transfer_take(struct slab_set *set, struct slab_set_rest *rest, unsigned wanted,
                            void **list) {
    if (!set->has_lists) {
        return 0;
    }
    void **last = *list = pop(set, rest);
    unsigned count = length_of(last);
    if (count > wanted * MUCH_MORE) {
        for (unsigned i = 1; i < wanted && *last; i++) {
            last = *last;
        }
        if (*last) {
            push(set, rest, *last, count - wanted);
            *last = NULL;
            count = wanted;
        }
    }
    uint32_t left = load_relaxed(&rest->listed_count);
    rest->listed_least = (uint32_t)bits_min(rest->listed_least, left);
    return count;
}

unsigned slab_transfer_steal(unsigned shard, unsigned shard_count, unsigned object_class,
                             unsigned wanted, void **list) {
    unsigned count = 0;
    for (unsigned i = 1; i < shard_count && !count; i++) {
        struct shard *from =
            load_acquire(&slab_shards[(shard + i) % shard_count]); /* order pair: shard table */
        if (from && load_relaxed(&from->rests[object_class].listed_count)) {
            struct slab_set *set = &from->sets[object_class];
            lock_acquire(&set->lock, LOCK_CLASS);
            count = slab_transfer_take(set, &from->rests[object_class], wanted, list);
            lock_release(&set->lock, LOCK_CLASS);
        }
    }
    return count;
}

/* One thread alone gains nothing by a list that it would take back itself: the slabs have the same
 * blocks in better order. */
enum slab_keeping slab_keep(unsigned index, unsigned object_class, void *list, unsigned count) {
    size_t size = size_classes[object_class].size;
    if (slab_is_for_one() || size < 2 * sizeof(void *) || slab_set_is_single(object_class) ||
        count == 0 || limits_are_pressed()) {
        return SLAB_IDLE;
    }
    struct shard *shard = slab_set_shard(index);
    struct slab_set *set = &shard->sets[object_class];
    struct slab_set_rest *rest = &shard->rests[object_class];
    lock_acquire(&set->lock, LOCK_CLASS);
    enum slab_keeping keeping = SLAB_IDLE;
    if (!load_relaxed(&slab_transfer_is_left[object_class]) &&
        (rest->listed_least + count) * size <= LISTED_MAX) {
        keeping = SLAB_FULL; /* there may soon be room */
        if ((load_relaxed(&rest->listed_count) + count) * size <= LISTED_MAX) {
            push(set, rest, list, count);
            keeping = SLAB_KEPT;
        }
    }
    lock_release(&set->lock, LOCK_CLASS);
    return keeping;
}

/* Gives all of a list back, or some; the rest of it waits for the next visit. */
static void give_back(struct slab_set *set, struct slab_set_rest *rest, unsigned object_class,
                      void *list, bool all) {
    unsigned count = length_of(list);
    int effort = all ? INT_MAX : SLAB_LITTLE_EFFORT;
    bool is_known = is_rest(list) && !all; /* a circle is to be cut, not gone round */
    unsigned left = slab_release_some(object_class, &list, count, effort, is_known);
    lock_acquire(&set->lock, LOCK_CLASS);
    if (left) {
        push(set, rest, list, left);
        *link_of(list) |= IS_REST;
    }
    rest->listed_least -= (uint32_t)bits_min(rest->listed_least, count - left);
    lock_release(&set->lock, LOCK_CLASS);
}

/* Gives a list back, if enough is idle; else the time between two visits begins anew. */
static bool visit(struct shard *shard, unsigned object_class, bool all) {
    struct slab_set *set = &shard->sets[object_class];
    struct slab_set_rest *rest = &shard->rests[object_class];
    void *list = NULL;
    lock_acquire(&set->lock, LOCK_CLASS);
    bool is_much_idle = (uint64_t)rest->listed_least * LITTLE_DIVISOR >= set->used_count;
    if (set->has_lists && (all || is_much_idle)) {
        list = pop(set, rest);
        store_relaxed(&slab_transfer_is_left[object_class], true);
    } else {
        rest->listed_least = load_relaxed(&rest->listed_count);
    }
    lock_release(&set->lock, LOCK_CLASS);
    if (list) {
        give_back(set, rest, object_class, list, all);
    }
    return list != NULL;
}

static void end_lists(struct shard *shard, unsigned object_class, void *context) {
    (void)context;
    if (load_relaxed(&shard->rests[object_class].listed_count)) {
        while (visit(shard, object_class, true)) {}
    }
}

void slab_transfer_end(void) {
    slab_set_for_each(end_lists, NULL);
}

/* The first set of the next shard that exists: they are made by who refills on a processor. */
static unsigned first_set_behind(unsigned index) {
    do {
        index = (index + 1) % SHARD_MAX;
    } while (index && !load_relaxed(&slab_shards[index]));
    return index * CLASS_COUNT;
}

/* Several threads at once visit the same sets, or one more than they should: no harm is done. */
void slab_tick(void) {
    static _Atomic unsigned cursor; /* (atomic: hint) the set to be visited next */
    unsigned at = load_relaxed(&cursor);
    bool is_due = false;
    for (unsigned i = 0; i < TICK_SETS && !is_due; i++) {
        unsigned index = at / CLASS_COUNT % SHARD_MAX;
        struct shard *shard = load_acquire(&slab_shards[index]); /* order pair: shard table */
        unsigned object_class = at % CLASS_COUNT + 1;
        if (!shard) {
            at = first_set_behind(index);
        } else if (load_relaxed(&shard->rests[object_class].listed_count)) {
            is_due = visit(shard, object_class, false);
            at += !is_due;
        } else {
            at++;
        }
    }
    store_relaxed(&cursor, at);
    store_relaxed(&slab_tick_is_due, is_due);
}
