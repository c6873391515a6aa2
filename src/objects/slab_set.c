/* slab_set.c - see slab_set.h; and slabs across fork. */
#include "objects/slab_set.h"

#include "pages/metadata.h"

struct shard slab_first_shard;
_Atomic(struct shard *) slab_shards[SHARD_MAX] = {&slab_first_shard};

struct lock slab_shards_lock;

PRIM_COLD struct shard *slab_set_make_shard(unsigned index) {
    lock_acquire(&slab_shards_lock, LOCK_SHARDS);
    struct shard *shard = load_relaxed(&slab_shards[index]);
    if (!shard) {
        shard = metadata_allocate(sizeof *shard, PRIM_CACHE_LINE);
        store_release(&slab_shards[index], shard); /* order pair: shard table */
    }
    lock_release(&slab_shards_lock, LOCK_SHARDS);
    return shard ? shard : &slab_first_shard;
}

void slab_set_for_each(void (*visit)(struct shard *shard, unsigned object_class, void *context),
                       void *context) {
    for (unsigned i = 0; i < SHARD_MAX; i++) {
        struct shard *shard = load_acquire(&slab_shards[i]); /* order pair: shard table */
        for (unsigned object_class = 1; shard && object_class <= CLASS_COUNT; object_class++) {
            visit(shard, object_class, context);
        }
    }
}

struct slab_set *slab_set_lock(const struct span *slab) {
    for (;;) {
        unsigned shard = load_acquire(&slab->shard); /* order pair: shard */
        struct slab_set *set = &load_acquire(&slab_shards[shard])->sets[slab->object_class];
        lock_acquire(&set->lock, LOCK_CLASS);
        if (load_relaxed(&slab->shard) == shard) {
            return set;
        }
        lock_release(&set->lock, LOCK_CLASS);
    }
}

PRIM_COLD void slab_set_remove_marked(struct slab_set *set, struct span *slab) {
    if (slab->bucket == BUCKET_ASLEEP) {
        span_unlink(&set->asleep, slab);
    } else {
        struct slab_set_rest *rest = slab_set_rest_of(slab);
        if (slab->bucket & MARK_SETTLED) {
            store_relaxed(&rest->settled_count,
                          load_relaxed(&rest->settled_count) - slab->settled_count);
        }
        if (slab->bucket & MARK_CURSOR) {
            slab_set_move_cursor(rest, slab->next);
        }
        span_unlink(&set->buckets[slab->bucket % MARK_WAITING], slab);
    }
    slab->bucket = BUCKET_NONE;
}

PRIM_COLD void slab_set_insert_asleep(struct slab_set *set, struct span *slab) {
    span_link(&set->asleep, slab);
}

void slab_set_move_cursor(struct slab_set_rest *rest, struct span *slab) {
    rest->cursor = slab;
    if (slab) {
        slab->bucket |= MARK_CURSOR;
    }
}

PRIM_COLD void slab_set_count_asleep(const struct span *slab, int32_t sign) {
    struct slab_set_rest *rest = slab_set_rest_of(slab);
    uint32_t pages = bits_count(slab->asleep_pages);
    rest->asleep_count += (uint32_t)sign * slab->asleep_count;
    rest->asleep_page_count += (uint32_t)sign * pages;
}

static void lock_set(struct shard *shard, unsigned object_class, void *context) {
    (void)context;
    lock_acquire_unranked(&shard->sets[object_class].lock);
}

static void unlock_set(struct shard *shard, unsigned object_class, void *context) {
    (void)context;
    lock_release_unranked(&shard->sets[object_class].lock);
}

static void reset_set(struct shard *shard, unsigned object_class, void *context) {
    (void)context;
    lock_reset(&shard->sets[object_class].lock);
}

void slab_fork_prepare(void) {
    lock_acquire_unranked(&slab_shards_lock); /* no shard appears while the sets are held */
    lock_acquire_unranked(&slab_purge_lock);  /* and no slab is half asleep */
    slab_set_for_each(lock_set, NULL);
}

void slab_fork_parent(void) {
    slab_set_for_each(unlock_set, NULL);
    lock_release_unranked(&slab_purge_lock);
    lock_release_unranked(&slab_shards_lock);
}

void slab_fork_child(void) {
    slab_set_for_each(reset_set, NULL);
    slab_purge_fork_child();
    lock_reset(&slab_shards_lock);
}
