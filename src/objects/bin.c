/* bin.c - see bin.h: how much a bin may hold, and where its blocks come from. */
#include "objects/bin.h"

#include "objects/slab.h"
#include "pages/sparse.h"
#include "settings/options.h"

enum {
    CAPACITY_START_SIZE = 512,        /* bytes a bin may hold at first, ... */
    CAPACITY_START_MAX = 8,           /* ... and blocks; */
    CAPACITY_AGAIN_SIZE = 4096,       /* the same in a cache that earlier threads ... */
    CAPACITY_AGAIN_MAX = 16,          /* ... have earned much for */
    CAPACITY_SMALL_SIZE = 16 * 1024,  /* bytes a bin of small blocks may grow to, ... */
    CAPACITY_KEPT_SIZE = 32 * 1024,   /* ... while lists are kept and the thread has few, ... */
    FEW_DIVISOR = 4,                  /* ... less than such a part of its bound, and ... */
    CAPACITY_FEW_SIZE = 64 * 1024,    /* ... while all bins together hold no more than ... */
    FEW_BINS_SIZE = 128 * 1024,       /* ... this: a program of few sizes */
    GREATER_SIZE = 4096,              /* bins of greater blocks only grow as they run over */
    CAPACITY_PAGES_COUNT = 8,         /* blocks of a few pages, as of a power of two, ... */
    CAPACITY_PAGES_SIZE = 384 * 1024, /* ... and bytes that a bin of them may grow to, ... */
    CAPACITY_WAITS_SIZE = 256 * 1024, /* ... and where threads wait for processors */
    CAPACITY_MAX = 1024,              /* blocks a bin may grow to */
    CAME_BACK = 1,                    /* what was freed in a row, and then wanted again: ... */
    CAME_BACK_MUCH = 8,               /* (this as well, if it was much of greater blocks) ... */
    CAME_BACK_DIVISOR = 16,           /* ... so many such parts of their bound all bins may hold */
    ONLY_FREED_SIZE = 512 * 1024,     /* bytes freed in a row: the class is only freed, ... */
    ONLY_FREED_MOST = 8192 * 1024,    /* (if much of greater blocks came back) ... */
    ONLY_FREED_ALONE = 32 * 1024,     /* (of small blocks by a thread that is alone) ... */
    CAPACITY_IDLE_SIZE = 16 * 1024,   /* ... its bin keeps so many bytes of greater blocks, ... */
    CAPACITY_IDLE_COUNT = 32,         /* ... or so many small ones */
    PAGE = 4096,                      /* bytes that processors fetch ahead within */
    PAGE_DIVISOR = 4,                 /* at most such a part of a head stays for its page's sake */
    SHORT_STAYS = 6,                  /* newest blocks left of a cut in a short bin, at most */
    FEW_SLABS = 16,                   /* of a class in all shards: they are in the first */
    MANY_SLABS = 24,                  /* of a medium class: one more is little */
    BORROW_CLASSES = 3,               /* so many greater ones may lend a block */
    BORROW_MOST = 16,                 /* blocks of a class between two collections */
};

/* The greater the blocks, the more a refill costs, and the fewer of them a bin has. */
static size_t usual_size(const struct thread_cache *cache, size_t size, size_t budget) {
    if (size > EIGHTHS_SIZE_MAX && load_relaxed(&sparse_is_on)) {
        return size * SPARSE_KEPT;
    }
    if (size > GREATER_SIZE) {
        size_t rounded = (size_t)2 << bits_highest(size - 1);
        size_t most = thread_cache_may_wait() ? CAPACITY_WAITS_SIZE : CAPACITY_PAGES_SIZE;
        return bits_min(rounded * CAPACITY_PAGES_COUNT, most);
    }
    size_t bytes = CAPACITY_SMALL_SIZE;
    if (cache->capacity_bytes < FEW_BINS_SIZE) {
        bytes = CAPACITY_FEW_SIZE;
    } else if (!slab_is_for_one() && cache->capacity_bytes < budget / FEW_DIVISOR) {
        bytes = CAPACITY_KEPT_SIZE;
    }
    /* When sampling, half of the blocks are in the bin that malloc takes from. */
    return cache->is_sampling ? bytes * 4 : bytes;
}

/* What a program of few sizes freed in a row and then wanted again may all be in its bin. */
static size_t capacity_size(struct thread_cache *cache, unsigned object_class) {
    size_t budget = thread_cache_budget(cache);
    size_t usual = usual_size(cache, size_classes[object_class].size, budget);
    size_t few = budget * bin_of(cache, object_class)->came_back / CAME_BACK_DIVISOR;
    return cache->capacity_bytes < few ? bits_max(few, usual) : usual;
}

static unsigned capacity_limit(struct thread_cache *cache, unsigned object_class) {
    size_t size = size_classes[object_class].size;
    size_t most = size <= options.cache_max ? options.cache_count / 2 : 0; /* head and spare */
    return (unsigned)bits_min(bits_max(capacity_size(cache, object_class) / size, 1),
                              bits_min(most, CAPACITY_MAX));
}

/* A thread that begins with the cache of one that ended will want as much as that did: it need not
 * find out again, in one refill after the other, most of which cut a list that others have left. */
unsigned bin_capacity_start(struct thread_cache *cache, unsigned object_class) {
    size_t bytes = cache->has_earned ? CAPACITY_AGAIN_SIZE : CAPACITY_START_SIZE;
    size_t most = cache->has_earned ? CAPACITY_AGAIN_MAX : CAPACITY_START_MAX;
    return (unsigned)bits_min(bits_clamp(bytes / size_classes[object_class].size, 1, most),
                              capacity_limit(cache, object_class));
}

void bin_set_capacity(struct thread_cache *cache, unsigned object_class, unsigned capacity) {
    struct bin *bin = bin_of(cache, object_class);
    int change = (int)capacity - bin->capacity;
    cache->room[object_class] -= bin_head_most(bin);
    bin->capacity = (uint16_t)capacity;
    cache->room[object_class] += bin_head_most(bin);
    cache->capacity_bytes +=
        (size_t)((ptrdiff_t)change * (ptrdiff_t)size_classes[object_class].size);
}

void *bin_take_spare(struct thread_cache *cache, unsigned object_class) {
    struct bin *bin = bin_of(cache, object_class);
    void *list = bin->spare;
    bin->spare = NULL;
    bin->spare_count = 0;
    bin->is_rest = false;
    bin_mark(cache->was_moved, object_class);
    return list;
}

void bin_head_to_spare(struct thread_cache *cache, unsigned object_class) {
    struct bin *bin = bin_of(cache, object_class);
    bin->spare = cache->head[object_class];
    bin->spare_count = (uint16_t)bin_head_length(cache, object_class);
    cache->head[object_class] = NULL;
    cache->room[object_class] = bin_head_most(bin);
}

void bin_grow(struct thread_cache *cache, unsigned object_class) {
    unsigned capacity = bin_of(cache, object_class)->capacity;
    size_t size = size_classes[object_class].size;
    size_t next = (capacity + 1) * size;
    if (capacity && next > capacity_size(cache, object_class)) { /* without a division */
        return;
    }
    unsigned wanted = capacity ? capacity * 2 : bin_capacity_start(cache, object_class);
    unsigned allowed = (unsigned)bits_min(wanted, capacity_limit(cache, object_class));
    size_t growth = (size_t)(allowed - capacity) * size;
    if (allowed > capacity && cache->capacity_bytes + growth <= thread_cache_budget(cache)) {
        bin_set_capacity(cache, object_class, allowed);
    }
}

/* A class that little is used of is not worth slabs in each shard. But where threads come and go,
 * the blocks of one that ended are soon another's on another processor; if neighbours share a line,
 * both wait for it with each write. So such a class has only as many slabs as shards first. */
static unsigned shard_for(unsigned object_class) {
    bool shares_lines =
        size_classes[object_class].size % PRIM_CACHE_LINE != 0 && thread_cache_is_inherited();
    size_t few = shares_lines ? bits_min(FEW_SLABS, slab_shard_count()) : FEW_SLABS;
    return slab_count(object_class) < few ? 0 : thread_cache_shard();
}

/* Much was freed since a block was taken last. Among several threads others may want the blocks;
 * one that is alone gives small ones back the sooner the better, while they are warm. */
static bool is_only_freed(const struct bin *bin, unsigned object_class) {
    bool is_small = size_classes[object_class].size <= GREATER_SIZE;
    if (is_small && slab_is_for_one() && !bin->came_back) {
        return bin->only_freed > ONLY_FREED_ALONE;
    }
    return bin->only_freed > (bin->came_back & CAME_BACK_MUCH ? ONLY_FREED_MOST : ONLY_FREED_SIZE);
}

/* Blocks from the slabs; returns how many, 0 without memory. */
static unsigned take_fresh(struct thread_cache *cache, unsigned object_class, void **list,
                           bool *is_zero) {
    struct bin *bin = bin_of(cache, object_class);
    size_t size = size_classes[object_class].size;
    if (bin->only_freed > ONLY_FREED_ALONE && object_class <= EIGHTHS_CLASS_LAST) {
        bool is_much = bin->only_freed > ONLY_FREED_SIZE && size > GREATER_SIZE;
        bin->came_back |= is_much ? CAME_BACK | CAME_BACK_MUCH : CAME_BACK;
    }
    unsigned wanted = (unsigned)bits_max(bin->capacity, 1);
    unsigned count = slab_acquire(shard_for(object_class), object_class, wanted, list, is_zero);
    bin->only_freed = 0;
    /* Much less than wanted is the beginning of a page: it says nothing of how much is needed. */
    if (count && count * 2 >= wanted && (size <= GREATER_SIZE || bin->capacity == 0)) {
        bin_grow(cache, object_class);
    }
    return count;
}

unsigned bin_take_list(struct thread_cache *cache, unsigned object_class, void **list,
                       bool *is_zero) {
    unsigned count = bin_of(cache, object_class)->spare_count;
    if (count) {
        if (bin_is_marked(cache->was_moved, object_class)) { /* again: both make one larger head */
            bin_grow(cache, object_class);
        }
        *list = bin_take_spare(cache, object_class);
        return count;
    }
    return take_fresh(cache, object_class, list, is_zero);
}

/* Whether a medium class without a spare would need new pages, and these would be much. Where
 * blocks stay untouched inside, each address shall serve one size. */
static bool needs_pages(unsigned object_class) {
    if (object_class > EIGHTHS_CLASS_LAST) {
        return !load_relaxed(&sparse_is_on);
    }
    return slab_count(object_class) < MANY_SLABS &&
           !slab_has_free(shard_for(object_class), object_class);
}

/* A block of the next greater classes, from their heads or what was their spare. */
static void *borrow(struct thread_cache *cache, unsigned object_class, size_t alignment) {
    unsigned last = (unsigned)bits_min(object_class + BORROW_CLASSES, CLASS_COUNT);
    for (unsigned from = object_class + 1; from <= last; from++) {
        struct bin *bin = medium_bin(cache, from);
        void *block = cache->head[from];
        if (!block && bin->spare) {
            cache->room[from] -= bin->spare_count;
            cache->head[from] = block = bin_take_spare(cache, from);
        }
        if (block && ((uintptr_t)block & (alignment - 1)) == 0) {
            bin->only_freed = 0;
            return thread_cache_pop(cache, from, block);
        }
    }
    return NULL;
}

void *bin_borrow(struct thread_cache *cache, unsigned object_class, size_t alignment) {
    if (object_class <= SMALL_CLASS_LAST || medium_bin(cache, object_class)->spare) {
        return NULL;
    }
    uint8_t *borrowed = &cache->rest->borrowed[object_class - MEDIUM_CLASS_FIRST];
    if (*borrowed >= BORROW_MOST || !needs_pages(object_class)) {
        return NULL;
    }
    void *block = borrow(cache, object_class, bits_max(alignment, 1));
    if (block) {
        cache->has_borrowed = true;
        ++*borrowed;
    }
    return block;
}

/* What is only freed is kept for other threads, but for greater blocks. */
static bool may_be_kept(const struct bin *bin, unsigned object_class) {
    return !is_only_freed(bin, object_class) || size_classes[object_class].size <= GREATER_SIZE;
}

void bin_give_block(struct thread_cache *cache, unsigned object_class, void *block) {
    if (may_be_kept(bin_of(cache, object_class), object_class) &&
        capacity_limit(cache, object_class) != 0) {
        *(void **)block = NULL;
        if (slab_keep(shard_for(object_class), object_class, block, 1) == SLAB_KEPT) {
            return;
        }
    }
    slab_release_block(object_class, block);
}

enum slab_keeping bin_give_spare(struct thread_cache *cache, unsigned object_class) {
    struct bin *bin = bin_of(cache, object_class);
    unsigned count = bin->spare_count;
    enum slab_keeping keeping =
        may_be_kept(bin, object_class)
            ? slab_keep(shard_for(object_class), object_class, bin->spare, count)
            : SLAB_IDLE;
    if (keeping == SLAB_KEPT) {
        bin_take_spare(cache, object_class);
    } else {
        count =
            slab_release_some(object_class, &bin->spare, count, SLAB_LITTLE_EFFORT, bin->is_rest);
        bin->spare_count = (uint16_t)count;
        bin->is_rest = count != 0;
        bin_mark(cache->was_moved, object_class);
    }
    return keeping;
}

/* The head becomes the spare, but for so many of its newest blocks, and for those next to them that
 * lie in the page of the block that comes, if there is one. So lists end where pages do, and
 * blocks that follow one another stay together however often they go round. Were lists cut
 * anywhere, each cut would be elsewhere than the time before, and after some rounds the next block
 * would so often lie in another page that no processor fetches ahead. */
static void older_to_spare(struct thread_cache *cache, unsigned object_class, unsigned newest,
                           const void *block) {
    unsigned length = bin_head_length(cache, object_class);
    unsigned count = 0;
    void *first = cache->head[object_class];
    void *rest = first;
    void **last = NULL; /* of those that stay */
    bin_mark(cache->was_moved, object_class);
    while (newest < length && (count < newest || (count < length / PAGE_DIVISOR &&
                                                  ((uintptr_t)rest ^ (uintptr_t)block) < PAGE))) {
        block = last = rest;
        rest = *last;
        count++;
    }
    cache->head[object_class] = rest;
    cache->room[object_class] += (int32_t)count;
    bin_head_to_spare(cache, object_class);
    if (last) {
        *last = NULL;
        cache->head[object_class] = first;
        cache->room[object_class] -= (int32_t)count;
    }
}

/* The newest block goes with the spare, as its first: who links that list to others writes to a
 * block that the cut has just read, and need not wait for one more. */
static void newest_to_spare(struct thread_cache *cache, unsigned object_class) {
    struct bin *bin = bin_of(cache, object_class);
    void **newest = cache->head[object_class];
    if (newest && *newest) {
        cache->head[object_class] = *newest;
        cache->room[object_class]++;
        *newest = bin->spare;
        bin->spare = newest;
        bin->spare_count++;
    }
}

void bin_set_aside(struct thread_cache *cache, unsigned object_class) {
    const struct bin *bin = bin_of(cache, object_class);
    bool is_long = bin_is_short(bin) && bin_head_length(cache, object_class) > bin->capacity;
    older_to_spare(cache, object_class, is_long && slab_is_for_one() ? bin->capacity : 0, NULL);
}

/* What a bin shrinks to: then a first-level cache holds what is in it and in others. */
static unsigned idle_capacity(unsigned object_class) {
    size_t size = size_classes[object_class].size;
    return size > GREATER_SIZE ? (unsigned)(CAPACITY_IDLE_SIZE / size) : CAPACITY_IDLE_COUNT;
}

/* The bin runs over, spare and all: it is too small. But where much was freed since one was taken
 * last, and no other thread wants it, the program goes on freeing, and keeping blocks for it is in
 * vain: their bin gets smaller. */
static void adapt_to_overflow(struct thread_cache *cache, unsigned object_class,
                              enum slab_keeping keeping) {
    struct bin *bin = bin_of(cache, object_class);
    size_t size = size_classes[object_class].size;
    unsigned idle = idle_capacity(object_class);
    if (keeping != SLAB_IDLE || !is_only_freed(bin, object_class)) {
        size_t bytes = bin->only_freed + bin->capacity * size;
        bin->only_freed = (uint32_t)bits_min(bytes, ONLY_FREED_MOST + 1); /* more says no more */
        bin_grow(cache, object_class);
    } else if (bin->capacity > idle) {
        bin_set_capacity(cache, object_class, (unsigned)bits_max(bin->capacity / 2, idle));
    }
}

/* The head becomes the spare once that is given away. In a bin that is short, or as small as it
 * gets, what does goes at once: whoever links its blocks to their slabs touches each, and they are
 * warm still; but where other threads ran meanwhile, the walk to the cut waits for memory at each
 * block, and is short. */
void bin_make_room(struct thread_cache *cache, unsigned object_class, const void *block) {
    const struct bin *bin = bin_of(cache, object_class);
    unsigned length = bin_head_length(cache, object_class);
    unsigned newest = (unsigned)bits_min(length - bin->capacity, (unsigned)bin_head_most(bin));
    bool is_smallest = bin->capacity <= idle_capacity(object_class);
    bool goes_at_once = bin_is_short(bin) || (is_only_freed(bin, object_class) && is_smallest);
    if (goes_at_once && !bin->spare) {
        bool is_alone = slab_is_for_one();
        unsigned stays = is_alone ? newest : (unsigned)bits_min(newest, SHORT_STAYS);
        older_to_spare(cache, object_class, stays, NULL);
        if (!is_alone) {
            newest_to_spare(cache, object_class);
        }
    }
    if (bin->spare) {
        enum slab_keeping keeping = bin_give_spare(cache, object_class);
        if (!bin->spare) {
            adapt_to_overflow(cache, object_class, keeping);
        }
    }
    if (!goes_at_once && !bin->spare) {
        older_to_spare(cache, object_class, newest, block);
    }
}

void bin_flush(struct thread_cache *cache, unsigned object_class) {
    struct bin *bin = bin_of(cache, object_class);
    while (bin->spare || cache->head[object_class]) {
        if (!bin->spare) {
            bin_head_to_spare(cache, object_class);
        }
        bin_give_spare(cache, object_class);
    }
    bin->only_freed = 0;
    bin->came_back = 0;
    bin_unmark(cache->was_moved, object_class);
}
