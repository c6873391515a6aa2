/* slab_purge.c - which pages of slabs in use go back to the system, and when.
 *
 * A purge visits every slab that has free blocks awake. A slab touched since the last visit is
 * marked as waiting; one that still waits was idle for the whole time between, and its wholly free
 * pages are put to sleep. Then it is settled: nothing more can come of it until somebody touches
 * it, so it is not looked at again. So a program in the middle of its work loses no page that it
 * used a moment ago, and a heap at rest costs one look.
 *
 * Pages are given back while the set is unlocked. Meanwhile others may take and return those of the
 * slab's blocks that are awake. One of the sleeping blocks counts as used, so that the slab cannot
 * be emptied and reused; nobody wakes pages of the slab that slab_pages_busy names; and SLAB_PURGE
 * is held, for which other purges wait, and fork. */
#include "objects/slab_pages.h"
#include "objects/slab_transfer.h"
#include "os/memory.h"
#include "pages/mapping.h"
#include "pages/returned.h"

enum {
    VISITS_MAX = 64,                /* slabs visited under one lock */
    BLOCKS_OF_A_VISIT = 32,         /* free blocks that take as long to look at */
    FUTILE_BLOCKS_MAX = 512 * 1024, /* free blocks looked at in vain by one purge of the idle */
};

struct lock slab_purge_lock;

/* Purges of a set go on from one place. While one of them is for all slabs, the others must not
 * pass a slab over on its behalf. */
static _Atomic unsigned purges_of_all; /* (atomic: hint, ordered by the sets' locks) under way */

struct purge {
    bool all;             /* not only what was idle */
    size_t futile_blocks; /* in slabs that had no page to give */
    size_t bytes;         /* given back */
};

static void count_settled(struct slab_set_rest *rest, const struct span *slab) {
    store_relaxed(&rest->settled_count, load_relaxed(&rest->settled_count) + slab->settled_count);
}

/* Marks a slab that has no more pages to give. */
static void settle(struct slab_set *set, struct span *slab) {
    slab_set_remove(set, slab);
    slab_set_insert(set, slab, slab_set_bucket_for(slab));
    if (slab->bucket < BUCKET_COUNT) {
        slab->bucket |= MARK_SETTLED;
        slab->settled_count = slab->free_count;
        count_settled(slab_set_rest_of(slab), slab);
    }
}

/* Puts consecutive blocks that are in no list into the free list. */
static void add_blocks(struct slab_set *set, struct span *slab, char *first, unsigned count) {
    if (count) {
        size_t size = size_classes[slab->object_class].size;
        slab_set_chain(first, count, size, slab->free_blocks);
        slab->free_blocks = first;
        slab->free_count = (uint16_t)(slab->free_count + count);
        slab_set_count_free(set, (int32_t)count);
    }
}

/* Counts one of the sleeping blocks as used, or no more (count -1). */
static void hold_block(struct slab_set *set, struct span *slab, int count) {
    slab->used_count = (uint16_t)(slab->used_count + count);
    slab->asleep_count = (uint16_t)(slab->asleep_count - count);
    set->used_count += (uint64_t)count;
    slab_set_rest_of(slab)->asleep_count -= (uint32_t)count;
}

/* The lowest consecutive bits. */
static uint64_t lowest_run(uint64_t pages) {
    return pages & ~(pages + (pages & -pages));
}

/* Gives pages asleep back to the system; returns those that it would not take. */
static uint64_t purge_pages(struct purge *purge, const struct span *slab, uint64_t pages) {
    uint64_t kept = 0;
    while (pages) {
        uint64_t run = lowest_run(pages);
        size_t size = bits_count(run) * memory_page_size();
        uintptr_t start = slab_pages_address(slab, bits_lowest(run));
        returned_note(start, start + size);
        if (mapping_purge(start, size)) {
            purge->bytes += size;
        } else {
            kept |= run;
        }
        pages &= ~run;
    }
    return kept;
}

/* With SLAB_PURGE held, and the set's lock, which it drops meanwhile and in the end: gives pages
 * just put to sleep back. Returns the slab if it was emptied meanwhile, to be freed. */
static struct span *give_back(struct purge *purge, struct slab_set *set, struct span *slab,
                              uint64_t pages) {
    hold_block(set, slab, 1);
    store_relaxed(&slab_pages_busy, slab);
    lock_release(&set->lock, LOCK_CLASS);
    uint64_t kept = purge_pages(purge, slab, pages);
    set = slab_set_lock(slab); /* it may have been moved to another shard */
    store_relaxed(&slab_pages_busy, NULL);
    hold_block(set, slab, -1);
    for (uint64_t left = kept; left; left &= ~lowest_run(left)) {
        char *first = NULL;
        unsigned count = slab_pages_wake(slab, lowest_run(left), &first);
        add_blocks(set, slab, first, count);
    }
    bool is_emptied = slab_set_retire(set, slab);
    if (!is_emptied && (kept || slab->free_count == 0)) {
        settle(set, slab);
    }
    lock_release(&set->lock, LOCK_CLASS);
    return is_emptied ? slab : NULL;
}

/* The slab to be visited next; NULL when all have been. */
static struct span *next_slab(struct slab_set *set, struct slab_set_rest *rest) {
    while (!rest->cursor && ++rest->cursor_bucket < BUCKET_COUNT) {
        slab_set_move_cursor(rest, set->buckets[rest->cursor_bucket]);
    }
    struct span *slab = rest->cursor;
    if (slab) {
        slab->bucket &= (uint8_t)~MARK_CURSOR;
        slab_set_move_cursor(rest, slab->next);
    }
    return slab;
}

/* Whether pages of the slab should go now; marks it as waiting if later. */
static bool is_due(const struct purge *purge, struct span *slab) {
    if (slab->bucket & MARK_SETTLED) {
        return false;
    }
    bool was_idle = (slab->bucket & MARK_WAITING) != 0;
    slab->bucket |= MARK_WAITING;
    bool is_for_all = purge->all || load_relaxed(&purges_of_all) != 0;
    return is_for_all || (was_idle && purge->futile_blocks < FUTILE_BLOCKS_MAX);
}

/* Visits slabs up to the first with pages to give, or some. False when all have been visited. */
static bool visit_slabs(struct purge *purge, struct slab_set *set, struct slab_set_rest *rest) {
    uint64_t pages = 0;
    struct span *slab = NULL;
    lock_acquire(&slab_purge_lock, LOCK_SLAB_PURGE);
    lock_acquire(&set->lock, LOCK_CLASS);
    for (unsigned visits = 0; visits < VISITS_MAX && pages == 0; visits++) {
        slab = next_slab(set, rest);
        if (!slab) {
            break;
        }
        if (is_due(purge, slab)) {
            uint32_t looked_at = slab->free_count;
            pages = slab_pages_sleep(set, slab);
            purge->futile_blocks += pages ? 0 : looked_at;
            visits += looked_at / BLOCKS_OF_A_VISIT;
            settle(set, slab);
        }
    }
    bool is_done = slab == NULL;
    if (pages) {
        slab = give_back(purge, set, slab, pages);
    } else {
        slab = NULL;
        lock_release(&set->lock, LOCK_CLASS);
    }
    lock_release(&slab_purge_lock, LOCK_SLAB_PURGE);
    if (slab) {
        purge_free(slab, SPAN_DIRTY);
    }
    return !is_done;
}

/* The room of a slab that nobody carves from anymore may have pages: it becomes free blocks, which
 * sleep like others. Returns the slab if it is empty, to be freed. */
static struct span *end_carving(const struct purge *purge, struct slab_set *set,
                                struct slab_set_rest *rest) {
    struct span *slab = set->carving;
    bool was_idle = rest->carving_seen == slab && rest->carved_count_seen == slab->carved_count;
    rest->carving_seen = slab;
    rest->carved_count_seen = slab->carved_count;
    if (slab_set_room_is_absent(slab) || !(purge->all || was_idle)) {
        return NULL;
    }
    set->carving = NULL;
    rest->carving_seen = NULL;
    if (slab_set_retire(set, slab)) {
        return slab;
    }
    const struct size_class *class = &size_classes[slab->object_class];
    char *first = (char *)slab->address + (size_t)slab->carved_count * class->size;
    unsigned room = class->capacity - slab->carved_count;
    slab->carved_count = class->capacity;
    add_blocks(set, slab, first, room);
    slab_set_update(set, slab);
    return NULL;
}

/* Begins with the first slab of the first list; false if there is none. */
static bool begin_visits(struct purge *purge, struct slab_set *set, struct slab_set_rest *rest) {
    struct span *emptied = NULL;
    lock_acquire(&set->lock, LOCK_CLASS);
    if (set->carving) {
        emptied = end_carving(purge, set, rest);
    }
    bool has_slabs = load_relaxed(&set->free_count) != 0;
    if (has_slabs) {
        if (rest->cursor) { /* of another purge, which goes on from our place */
            rest->cursor->bucket &= (uint8_t)~MARK_CURSOR;
        }
        rest->cursor_bucket = 0;
        slab_set_move_cursor(rest, set->buckets[0]);
    }
    lock_release(&set->lock, LOCK_CLASS);
    if (emptied) {
        purge_free(emptied, SPAN_DIRTY);
    }
    return has_slabs;
}

static void purge_set(struct shard *shard, unsigned object_class, void *context) {
    struct slab_set *set = &shard->sets[object_class];
    struct slab_set_rest *rest = &shard->rests[object_class];
    if (begin_visits(context, set, rest)) {
        while (visit_slabs(context, set, rest)) {}
    }
}

size_t slab_purge(bool all) {
    struct purge purge = {.all = all};
    slab_transfer_end();
    add_relaxed(&purges_of_all, all);
    slab_set_for_each(purge_set, &purge);
    subtract_relaxed(&purges_of_all, all);
    return purge.bytes;
}

/* Most classes have no slabs: then their sets, which are in no cache, are left alone. */
static size_t returnable_blocks(const struct shard *shard, unsigned object_class) {
    if (slab_count(object_class) == 0) {
        return 0;
    }
    const struct slab_set_rest *rest = &shard->rests[object_class];
    size_t count = load_relaxed(&shard->sets[object_class].free_count);
    if (count) {
        count -= bits_min(count, load_relaxed(&rest->settled_count));
    }
    return count + load_relaxed(&rest->listed_count);
}

size_t slab_returnable_some(unsigned *set, unsigned most) {
    size_t bytes = 0;
    for (; most && *set < SHARD_MAX * CLASS_COUNT; most--) {
        const struct shard *shard =
            load_acquire(&slab_shards[*set / CLASS_COUNT]); /* order pair: shard table */
        unsigned object_class = *set % CLASS_COUNT + 1;
        if (shard) {
            bytes += returnable_blocks(shard, object_class) * size_classes[object_class].size;
        }
        *set += shard ? 1 : CLASS_COUNT;
    }
    *set = *set < SHARD_MAX * CLASS_COUNT ? *set : 0;
    return bytes;
}

size_t slab_returnable_bytes(void) {
    unsigned set = 0;
    return slab_returnable_some(&set, SHARD_MAX * CLASS_COUNT);
}

/* Who was in a purge in the parent is not here to end it. */
void slab_purge_fork_child(void) {
    store_relaxed(&purges_of_all, 0);
    lock_reset(&slab_purge_lock);
}
