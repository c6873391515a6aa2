/* slab_set.h - where slabs with free blocks are found; shared by the slab_*.c files only.
 *
 * A set is the slabs of one class in one shard. What every allocation needs of it fills one cache
 * line; what only sleeping pages need is its rest, which a program that never purges never touches.
 *
 * Slabs with free blocks are listed by how much of them is free. Refilling from the fullest ones
 * lets the emptiest drain; slabs nearly full give too few blocks to be worth the visit and rest
 * until nothing else is left.
 *
 * Marks on a slab's bucket say what the purge knows of it (slab_purge.c). Whoever takes or returns
 * blocks puts the slab where a bucket without marks belongs, so they vanish by themselves: a mark
 * says that nobody has touched the slab since, and costs those who touch it nothing. */
#ifndef PRIM_OBJECTS_SLAB_SET_H
#define PRIM_OBJECTS_SLAB_SET_H

#include "objects/size_class.h"
#include "objects/slab.h"
#include "os/lock.h"
#include "pages/purge.h"

enum slab_bucket {
    BUCKET_EIGHTH,  /* an eighth is free, or more; in the order in which they are refilled from */
    BUCKET_QUARTER, /* a quarter, or more */
    BUCKET_RESTING, /* less than an eighth */
    BUCKET_COUNT,
    BUCKET_NONE = BUCKET_COUNT, /* in no list: full, or being carved */
    BUCKET_ASLEEP,              /* its free blocks are all asleep */
    /* Marks on one of the first three: */
    MARK_WAITING = 8,  /* has been visited; if it is still so at the next visit, it was idle */
    MARK_SETTLED = 16, /* has no more pages to give: counted in the rest's settled_count */
    MARK_CURSOR = 32,  /* the rest's cursor: will be visited next */
};

struct slab_set {
    _Alignas(PRIM_CACHE_LINE) struct lock lock;
    uint32_t slab_count : 31;           /* (lock: CLASS) all slabs, full ones too */
    uint32_t has_lists : 1;             /* (lock: CLASS) there are some in the rest */
    struct span *carving;               /* (lock: CLASS) the slab that fresh blocks come from */
    struct span *buckets[BUCKET_COUNT]; /* (lock: CLASS) slabs with free blocks that are awake */
    struct span *asleep;                /* (lock: CLASS) slabs in BUCKET_ASLEEP */
    uint64_t used_count;                /* (lock: CLASS) blocks handed out */
    _Atomic uint32_t free_count;        /* (atomic: hint) blocks in free lists; written under the
                                           lock, as settled_count is */
};

_Static_assert(sizeof(struct slab_set) == PRIM_CACHE_LINE, "a set is one cache line");

struct slab_set_rest {
    uint32_t asleep_count;          /* (lock: CLASS) blocks asleep */
    uint32_t asleep_page_count;     /* (lock: CLASS) system pages asleep */
    _Atomic uint32_t settled_count; /* (atomic: hint) free blocks in settled slabs */
    uint32_t cursor_bucket;         /* (lock: CLASS) bucket that a purge is visiting */
    struct span *cursor;            /* (lock: CLASS) the slab that it visits next, or NULL */
    struct span *carving_seen;      /* (lock: CLASS) the slab that was carved at the last purge */
    uint32_t carved_count_seen;     /* (lock: CLASS) and how far */
    void *lists;                    /* (lock: CLASS) the transfer cache: slab_transfer.h */
    _Atomic uint32_t listed_count;  /* (atomic: hint) blocks in lists; written under the lock */
    uint32_t listed_least;          /* (lock: CLASS) least of them since the last visit */
};

struct shard {
    struct slab_set sets[CLASS_COUNT + 1];
    struct slab_set_rest rests[CLASS_COUNT + 1];
};

/* The first shard is always there, so that allocation goes on when memory for others is out. */
extern PRIM_HIDDEN struct shard slab_first_shard;
extern PRIM_HIDDEN _Atomic(struct shard *) slab_shards[SHARD_MAX]; /* (atomic: shard table) */

/* (lock: SHARDS) held while a shard is made, (lock: SLAB_PURGE) while pages of a slab go. */
extern PRIM_HIDDEN struct lock slab_shards_lock;
extern PRIM_HIDDEN struct lock slab_purge_lock;
void slab_purge_fork_child(void);

/* Slabs of one block need no lists, no counts and no lock: they come from the page heap and go
 * back to it with their block. */
PRIM_INLINE bool slab_set_is_single(unsigned object_class) {
    return size_classes[object_class].capacity == 1;
}

/* The shard with this index; the first one if there is no memory for it. */
struct shard *slab_set_make_shard(unsigned index);

PRIM_INLINE struct shard *slab_set_shard(unsigned index) {
    struct shard *shard = load_acquire(&slab_shards[index]); /* order pair: shard table */
    return PRIM_LIKELY(shard != NULL) ? shard : slab_set_make_shard(index);
}

/* Locks the set that the slab belongs to and returns it. */
struct slab_set *slab_set_lock(const struct span *slab);

/* With the lock of its set held. */
PRIM_INLINE struct slab_set_rest *slab_set_rest_of(const struct span *slab) {
    struct shard *shard =
        load_acquire(&slab_shards[load_relaxed(&slab->shard)]); /* order pair: shard table */
    return &shard->rests[slab->object_class];
}

/* Calls visit for the sets of every class of every shard that exists, in a fixed order. */
void slab_set_for_each(void (*visit)(struct shard *shard, unsigned object_class, void *context),
                       void *context);

/* The uncommon half of the two functions below: sleeping slabs and marks. */
void slab_set_remove_marked(struct slab_set *set, struct span *slab);
void slab_set_insert_asleep(struct slab_set *set, struct span *slab);

/* The list that the slab belongs in. */
PRIM_INLINE unsigned slab_set_bucket_for(const struct span *slab) {
    unsigned count = slab->free_count;
    unsigned capacity = size_classes[slab->object_class].capacity;
    if (count == 0) {
        return slab->asleep_count ? BUCKET_ASLEEP : BUCKET_NONE;
    }
    if (count * 4 >= capacity) {
        return BUCKET_QUARTER;
    }
    return count * 8 >= capacity ? BUCKET_EIGHTH : BUCKET_RESTING;
}

PRIM_INLINE void slab_set_remove(struct slab_set *set, struct span *slab) {
    if (slab->bucket >= BUCKET_NONE) {
        if (PRIM_UNLIKELY(slab->bucket != BUCKET_NONE)) {
            slab_set_remove_marked(set, slab);
        }
        return;
    }
    span_unlink(&set->buckets[slab->bucket], slab);
    slab->bucket = BUCKET_NONE;
}

PRIM_INLINE void slab_set_insert(struct slab_set *set, struct span *slab, unsigned bucket) {
    slab->bucket = (uint8_t)bucket;
    if (bucket >= BUCKET_NONE) {
        if (PRIM_UNLIKELY(bucket != BUCKET_NONE)) {
            slab_set_insert_asleep(set, slab);
        }
        return;
    }
    span_link(&set->buckets[bucket], slab);
}

/* Keeps the slab in the list that its counts ask for, without marks. */
PRIM_INLINE void slab_set_update(struct slab_set *set, struct span *slab) {
    unsigned bucket = slab_set_bucket_for(slab);
    if (bucket != slab->bucket) {
        slab_set_remove(set, slab);
        slab_set_insert(set, slab, bucket);
    }
}

/* Whether the room that is not carved yet has no pages: none from a former life, no huge one. */
PRIM_INLINE bool slab_set_room_is_absent(const struct span *slab) {
    return slab->is_zero && !span_has_mark(slab->address, MARK_HUGE);
}

/* Links consecutive blocks of this size to a list that goes on with rest. */
PRIM_INLINE void slab_set_chain(char *first, unsigned count, size_t size, void *rest) {
    char *last = first + (count - 1) * size;
    for (char *block = first; block != last; block += size) {
        *(void **)block = block + size;
    }
    *(void **)last = rest;
}

PRIM_INLINE void slab_set_count_free(struct slab_set *set, int32_t change) {
    store_relaxed(&set->free_count, load_relaxed(&set->free_count) + (uint32_t)change);
}

/* Lets a purge go on with this slab, which is in the list it visits; NULL: with the next list. */
void slab_set_move_cursor(struct slab_set_rest *rest, struct span *slab);

/* Adds what the slab has asleep to the counts of its set, or subtracts it. */
void slab_set_count_asleep(const struct span *slab, int32_t sign);

/* Takes a slab without used blocks out of the set and returns true: it is the caller's to free. A
 * slab of one slice that is being carved stays, so that one block can come and go. */
PRIM_INLINE bool slab_set_retire(struct slab_set *set, struct span *slab) {
    if (slab->used_count || (slab == set->carving && slab->slice_count == 1)) {
        return false;
    }
    slab_set_remove(set, slab);
    slab_set_count_free(set, -(int32_t)slab->free_count);
    if (PRIM_UNLIKELY(slab->asleep_pages != 0)) {
        slab_set_count_asleep(slab, -1);
    }
    set->slab_count--;
    if (slab == set->carving) {
        set->carving = NULL;
    }
    return true;
}

#endif
