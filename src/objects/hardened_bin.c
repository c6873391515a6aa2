/* hardened_bin.c - see hardened_bin.h. */
#include "objects/hardened_bin.h"

#include "base/bits.h"
#include "objects/hardened_slab.h"
#include "os/machine.h"
#include "pages/metadata.h"
#include "settings/options.h"

enum {
    SMALL_SIZE = 4096,              /* a block up to so much is small */
    READY_SIZE = 32 * 1024,         /* bytes of small blocks that a magazine may hold ... */
    READY_MEDIUM_SIZE = 256 * 1024, /* ... and of greater ones; two blocks at least */
    REFILL_MIN = 4,   /* blocks that a class in use gets first; then twice as many each time */
    CLEAR_UNITS = 4,  /* that free makes zero without a call */
    WINDOW = 8,       /* blocks that change places */
    WAITING_MIN = 8,  /* freed blocks of a class that wait for more ... */
    WAITING_MAX = 32, /* ... by options.quarantine */
};

static uint32_t room_of(unsigned object_class) {
    size_t size = size_classes[object_class].size;
    size_t room = (size > SMALL_SIZE ? READY_MEDIUM_SIZE : READY_SIZE) / size;
    return (uint32_t)bits_clamp(room, 2, MAGAZINE_ROOM);
}

static void set_up(struct hardened_cache *own, unsigned object_class) {
    struct hardened_bin *bin = &own->bins[object_class];
    size_t size = size_classes[object_class].size;
    size_t room = room_of(object_class);
    size_t waiting = bits_clamp(options.quarantine / size, WAITING_MIN, WAITING_MAX);
    bin->waiting_min = (uint16_t)bits_min(options.quarantine ? waiting : 1, (room + 1) / 2);
    bin->refill_count = (uint16_t)bits_min(REFILL_MIN, room);
    size_t units = bits_min(size, bits_round_up(options.zero_max, HARDENED_UNIT)) / HARDENED_UNIT;
    bin->clear_last =
        (uint8_t)(units - 1 < CLEAR_UNITS ? (units - 1) * HARDENED_UNIT : CLEAR_OTHERWISE);
    bin->clear_step = units > 2 ? HARDENED_UNIT : 0;
    bin->top = bin->bottom = &own->no_blocks;
}

PRIM_COLD void hardened_bins_seed(struct hardened_cache *own) {
    own->random = machine_random() ^ (uintptr_t)own;
}

struct hardened_cache *hardened_bins_make(struct thread_cache *cache) {
    struct hardened_cache *own = metadata_allocate(sizeof *own, PRIM_CACHE_LINE);
    if (own) {
        hardened_bins_seed(own);
        own->no_block[0] = 1;
        own->no_blocks = own->no_block;
        for (unsigned i = 1; i <= CLASS_COUNT; i++) {
            set_up(own, i);
        }
    }
    cache->hardened = own;
    return own;
}

/* Eight blocks at a time go out in any order, all orders alike. They are no more because a program
 * may pass them on to another thread as a list: links to far away are what no processor foresees.
 * One throw does for eight: what is left of it after a place was chosen chooses the next. */
static void load(struct hardened_cache *own, struct hardened_bin *bin, struct magazine *magazine) {
    void **blocks = magazine->blocks;
    blocks[0] = own->no_block;
    bin->ready = magazine;
    bin->bottom = blocks;
    bin->top = blocks + magazine->count;
    uint64_t state = own->random;
    for (size_t last = magazine->count; last > 1; last -= bits_min(last, WINDOW)) {
        state = hardened_next(state);
        uint64_t product = state >> 32;
        for (size_t left = bits_min(last, WINDOW); left > 1; left--) {
            product = (product & UINT32_MAX) * left;
            void **thrown = &blocks[last - (product >> 32)];
            void **place = &blocks[last - left + 1];
            void *block = *thrown;
            *thrown = *place;
            *place = block;
        }
    }
    own->random = state;
}

static void collect(struct hardened_bin *bin, struct magazine *magazine) {
    bin->freed = magazine;
    bin->freed_top = magazine->blocks + magazine->count;
    bin->freed_last = magazine->blocks + magazine->room;
}

bool hardened_bin_turn(struct hardened_cache *own, unsigned object_class) {
    struct hardened_bin *bin = &own->bins[object_class];
    struct magazine *empty = bin->ready;
    struct magazine *full = bin->spare;
    if (!empty) {
        return false;
    }
    empty->count = 0;
    if (full && full->count) {
        bin->spare = empty;
    } else {
        full = bin->freed;
        size_t count = full ? (size_t)(bin->freed_top - full->blocks) : 0;
        if (!full || count < bin->waiting_min) {
            return false;
        }
        full->count = (uint32_t)count;
        collect(bin, empty);
    }
    load(own, bin, full);
    return true;
}

bool hardened_bin_refill(struct hardened_cache *own, unsigned object_class) {
    struct hardened_bin *bin = &own->bins[object_class];
    struct magazine *empty = bin->ready ? bin->ready : hardened_depot_make(room_of(object_class));
    if (!empty) {
        return false;
    }
    empty->count = 0;
    struct magazine *spare = bin->spare; /* a full one, if the thread has only freed so far */
    struct magazine *full =
        spare && spare->count ? spare : hardened_depot_take(object_class, spare);
    if (full) {
        bin->spare = empty;
    } else {
        full = empty;
        full->count =
            hardened_slab_take(object_class, full->blocks + 1, bin->refill_count, &own->random);
        bin->refill_count = (uint16_t)bits_min((size_t)2 * bin->refill_count, full->room);
    }
    load(own, bin, full);
    return full->count != 0;
}

void hardened_bin_overflow(void *block, unsigned object_class, struct hardened_bin *bin) {
    thread_cache_nest();
    struct magazine *next = bin->spare;
    next = next && next->count ? hardened_depot_give(next) : next;
    next = next ? next : hardened_depot_make(room_of(object_class));
    bin->spare = NULL;
    if (next) {
        if (bin->freed) {
            bin->freed->count = bin->freed->room;
        }
        bin->spare = bin->freed;
        collect(bin, next);
        *++bin->freed_top = block;
    } else {
        hardened_slab_give(&block, 1);
    }
    thread_cache_leave();
}

static struct magazine *empty(struct magazine *magazine) {
    return magazine && magazine->count ? hardened_depot_give(magazine) : magazine;
}

void hardened_bin_flush(struct hardened_cache *own, unsigned object_class) {
    struct hardened_bin *bin = &own->bins[object_class];
    if (bin->ready) {
        bin->ready->count = (uint32_t)(bin->top - bin->bottom);
    }
    if (bin->freed) {
        bin->freed->count = (uint32_t)(bin->freed_top - bin->freed->blocks);
    }
    bin->ready = empty(bin->ready);
    bin->spare = empty(bin->spare);
    bin->freed = empty(bin->freed);
    bin->top = bin->bottom = &own->no_blocks;
    bin->freed_top = bin->freed_last = NULL;
    if (bin->freed) {
        collect(bin, bin->freed);
    }
}
