/* The operations of the random walk. Each allocates, resizes or frees one block through one
 * function of the API and compares the outcome with the model. */
#include "model/model.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/live_map.h"
#include "support/names.h"

enum { EXCHANGE_SLOTS = 1024 };
static struct block exchange[EXCHANGE_SLOTS];
static pthread_mutex_t exchange_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool failing;

static struct step *current_step(struct walker *walker) {
    return &walker->history[walker->step % HISTORY];
}

/* Prints how to repeat the walk and what led here. */
#define REQUIRE(walker, condition, ...)                                \
    do {                                                               \
        if (!(condition)) {                                            \
            report(walker);                                            \
            check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
        }                                                              \
    } while (0)

static void report(struct walker *walker) {
    if (atomic_exchange(&failing, true)) {
        pause();
    }
    fprintf(stderr, "model: walker %u failed in step %llu; repeat with --seed %llu; last steps:\n",
            walker->number, (unsigned long long)walker->step, (unsigned long long)walker->seed);
    uint64_t first = walker->step >= HISTORY ? walker->step - HISTORY + 1 : 0;
    for (uint64_t i = first; i <= walker->step; i++) {
        const struct step *step = &walker->history[i % HISTORY];
        fprintf(stderr, "  %llu: %s(%p, size %zu, alignment %zu) = %p\n", (unsigned long long)i,
                step->name, step->before, step->size, step->alignment, step->after);
    }
    fflush(stderr);
}

/* Small blocks are checked whole; of large ones the ends and a few places between. */
enum { WHOLE = 8192, EDGE = 512, PLACES = 8 };

static void stamp(const struct block *block) {
    if (block->usable <= WHOLE) {
        fill_pattern(block->start, block->usable, block->tag);
        return;
    }
    size_t stride = block->usable / PLACES;
    for (size_t offset = 0; offset + EDGE <= block->usable; offset += stride) {
        fill_pattern(block->start + offset, EDGE, block->tag);
    }
    fill_pattern(block->start + block->usable - EDGE, EDGE, block->tag);
}

static void check_place(struct walker *walker, const struct block *block, size_t offset,
                        size_t length) {
    size_t good = check_pattern(block->start + offset, length, block->tag);
    REQUIRE(walker, good == length, "block %p of %zu bytes (%zu usable) changed at offset %zu",
            (void *)block->start, block->size, block->usable, offset + good);
}

static void check_content(struct walker *walker, const struct block *block) {
    if (block->usable <= WHOLE) {
        check_place(walker, block, 0, block->usable);
        return;
    }
    size_t stride = block->usable / PLACES;
    size_t last = block->usable - EDGE;
    for (size_t offset = 0; offset + EDGE <= block->usable; offset += stride) {
        /* The stamp of the end was written over this one. */
        check_place(walker, block, offset,
                    offset + EDGE > last && offset < last ? last - offset : EDGE);
    }
    check_place(walker, block, last, EDGE);
}

/* What a block keeps when it is resized: its first bytes, as far as they were stamped and fit. */
static void check_kept(struct walker *walker, const struct block *old, unsigned char *start,
                       size_t size) {
    size_t kept = size < old->size ? size : old->size;
    size_t stamped = old->usable <= WHOLE ? kept : kept < EDGE ? kept : EDGE;
    struct block view = *old;
    view.start = start;
    /* A pattern's last partial word differs from a whole one's prefix only in length. */
    check_place(walker, &view, 0, stamped);
}

static size_t least_alignment(size_t size) {
    return size > 8 ? 16 : 8;
}

static struct block *empty_slot(struct walker *walker) {
    for (int tries = 0; tries < 8; tries++) {
        struct block *slot = &walker->slots[random_below(&walker->random, OWN_SLOTS)];
        if (slot->start == NULL) {
            return slot;
        }
    }
    return NULL;
}

static struct block *full_slot(struct walker *walker) {
    for (int tries = 0; tries < 8; tries++) {
        struct block *slot = &walker->slots[random_below(&walker->random, OWN_SLOTS)];
        if (slot->start != NULL) {
            return slot;
        }
    }
    return NULL;
}

static void adopt(struct walker *walker, struct block *slot, void *start, size_t size,
                  size_t alignment) {
    current_step(walker)->after = start;
    REQUIRE(walker, start != NULL, "no memory for %zu bytes aligned to %zu: %s", size, alignment,
            strerror(errno));
    REQUIRE(walker, (uintptr_t)start % alignment == 0,
            "block %p of %zu bytes is not aligned to %zu", start, size, alignment);
    size_t usable = malloc_usable_size(start);
    REQUIRE(walker, usable >= size, "block %p of %zu bytes has %zu usable", start, size, usable);
    size_t overlapped_size = 0;
    const void *overlapped = live_map_add(start, usable, &overlapped_size);
    REQUIRE(walker, overlapped == NULL, "block %p of %zu bytes overlaps %p of %zu bytes", start,
            usable, overlapped, overlapped_size);
    *slot = (struct block){start, size, usable, alignment, walker->next_tag++};
    stamp(slot);
}

static void release_checks(struct walker *walker, const struct block *block) {
    current_step(walker)->before = block->start;
    current_step(walker)->size = block->size;
    check_content(walker, block);
    REQUIRE(walker, malloc_usable_size(block->start) == block->usable,
            "usable size of %p changed from %zu to %zu", (void *)block->start, block->usable,
            malloc_usable_size(block->start));
    size_t size = live_map_remove(block->start);
    REQUIRE(walker, size != 0, "block %p is not in the model", (void *)block->start);
}

static size_t choose_size(struct walker *walker) {
    size_t size = random_size(&walker->random, walker->largest);
    current_step(walker)->size = size;
    return size;
}

static size_t choose_alignment(struct walker *walker) {
    unsigned largest_shift = random_below(&walker->random, 50) == 0 ? 22 : 13;
    size_t alignment = (size_t)1 << random_below(&walker->random, largest_shift);
    current_step(walker)->alignment = alignment;
    return alignment;
}

static size_t larger_of(size_t left, size_t right) {
    return left > right ? left : right;
}

static void step_malloc(struct walker *walker) {
    struct block *slot = empty_slot(walker);
    if (slot != NULL) {
        size_t size = choose_size(walker);
        adopt(walker, slot, malloc(size), size, least_alignment(size));
    }
}

static void step_calloc(struct walker *walker) {
    struct block *slot = empty_slot(walker);
    if (slot != NULL) {
        size_t size = choose_size(walker);
        size_t count = random_below(&walker->random, 3) == 0 ? 7 : 1;
        unsigned char *start = calloc(count, size / count);
        size = size / count * count;
        for (size_t i = 0; start != NULL && i < size; i++) {
            REQUIRE(walker, start[i] == 0, "calloc left byte %zu of %zu at %p", i, size,
                    (void *)start);
        }
        adopt(walker, slot, start, size, least_alignment(size));
    }
}

static void step_reallocate(struct walker *walker, void *(*resize)(void *, size_t)) {
    struct block *slot = full_slot(walker);
    if (slot == NULL) {
        return;
    }
    size_t size = choose_size(walker) + 1;
    struct block old = *slot;
    /* Half of the time a small change, as growing strings and vectors make it. */
    if (random_below(&walker->random, 2) == 0) {
        size = old.size + old.size / 2 + 1;
    }
    if (size > walker->largest) {
        size = walker->largest;
    }
    release_checks(walker, &old);
    current_step(walker)->size = size;
    unsigned char *start = resize(old.start, size);
    if (start != NULL) {
        check_kept(walker, &old, start, size);
    }
    slot->start = NULL;
    adopt(walker, slot, start, size, least_alignment(size));
}

static void *resize_array(void *block, size_t size) {
    return size % 4 == 0 ? reallocarray(block, size / 4, 4) : reallocarray(block, 1, size);
}

static void *resize(void *block, size_t size) {
    return realloc(block, size);
}

static void step_realloc(struct walker *walker) {
    step_reallocate(walker, resize);
}

static void step_reallocarray(struct walker *walker) {
    step_reallocate(walker, resize_array);
}

static void step_aligned_alloc(struct walker *walker) {
    struct block *slot = empty_slot(walker);
    if (slot != NULL) {
        size_t size = choose_size(walker);
        size_t alignment = choose_alignment(walker);
        adopt(walker, slot, aligned_alloc(alignment, size), size, alignment);
    }
}

static void step_memalign(struct walker *walker) {
    struct block *slot = empty_slot(walker);
    if (slot != NULL) {
        size_t size = choose_size(walker);
        size_t alignment = choose_alignment(walker);
        adopt(walker, slot, memalign(alignment, size), size, alignment);
    }
}

static void step_posix_memalign(struct walker *walker) {
    struct block *slot = empty_slot(walker);
    if (slot != NULL) {
        size_t size = choose_size(walker);
        size_t alignment = larger_of(choose_alignment(walker), sizeof(void *));
        void *start = NULL;
        int error = posix_memalign(&start, alignment, size);
        REQUIRE(walker, error == 0, "posix_memalign(%zu, %zu): %s", alignment, size,
                strerror(error));
        adopt(walker, slot, start, size, alignment);
    }
}

static void step_pages(struct walker *walker) {
    struct block *slot = empty_slot(walker);
    if (slot != NULL) {
        size_t size = choose_size(walker);
        bool whole = random_below(&walker->random, 2) == 0;
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        void *start = whole ? pvalloc(size) : valloc(size);
        size_t pages = size ? (size + page - 1) / page : 1; /* pvalloc gives one at least */
        adopt(walker, slot, start, whole ? pages * page : size, page);
    }
}

static void release(struct walker *walker, struct block *block) {
    struct block old = *block;
    block->start = NULL;
    release_checks(walker, &old);
    errno = EXDEV;
    if (random_below(&walker->random, 4) > 0 || !has_sized_free()) {
        free(old.start);
    } else if (old.alignment <= 16) {
        free_sized(old.start, old.size);
    } else {
        free_aligned_sized(old.start, old.alignment, old.size);
    }
    REQUIRE(walker, errno == EXDEV, "free changed errno to %d", errno);
}

static void step_free(struct walker *walker) {
    struct block *slot = full_slot(walker);
    if (slot != NULL) {
        release(walker, slot);
    }
}

/* Frees a run of blocks, as a program does when it drops a data structure. */
static void step_free_many(struct walker *walker) {
    size_t first = random_below(&walker->random, OWN_SLOTS);
    size_t count = random_below(&walker->random, OWN_SLOTS / 4);
    for (size_t i = first; i < first + count && i < OWN_SLOTS; i++) {
        if (walker->slots[i].start != NULL) {
            release(walker, &walker->slots[i]);
        }
    }
}

/* Swaps a block with whatever another walker left in the exchange. */
static void step_hand_over(struct walker *walker) {
    struct block *own = &walker->slots[random_below(&walker->random, OWN_SLOTS)];
    struct block *shared = &exchange[random_below(&walker->random, EXCHANGE_SLOTS)];
    pthread_mutex_lock(&exchange_lock);
    struct block taken = *shared;
    *shared = *own;
    *own = taken;
    pthread_mutex_unlock(&exchange_lock);
    current_step(walker)->before = own->start;
}

static void step_check(struct walker *walker) {
    struct block *slot = full_slot(walker);
    if (slot != NULL) {
        check_content(walker, slot);
        REQUIRE(walker, malloc_usable_size(slot->start) == slot->usable, "usable size changed");
    }
}

static void step_impossible(struct walker *walker) {
    errno = 0;
    void *block =
        opaque(malloc(opaque_size(SIZE_MAX / 2 + random_below(&walker->random, 4096) + 1)));
    REQUIRE(walker, block == NULL && errno == ENOMEM, "an impossible size gave %p", block);
}

static void step_trim(struct walker *walker) {
    int released = malloc_trim(random_below(&walker->random, 2) << 20);
    REQUIRE(walker, released == 0 || released == 1, "malloc_trim returned %d", released);
}

static void step_mallinfo(struct walker *walker) {
    struct mallinfo2 info = mallinfo2();
    REQUIRE(walker, info.arena + info.hblkhd > 0 || live_map_count() == 0,
            "mallinfo2 knows of no memory");
}

static const struct {
    const char *name;
    void (*run)(struct walker *walker);
    unsigned weight;
} operations[] = {
    {"malloc", step_malloc, 340},
    {"calloc", step_calloc, 60},
    {"realloc", step_realloc, 90},
    {"reallocarray", step_reallocarray, 20},
    {"aligned_alloc", step_aligned_alloc, 15},
    {"memalign", step_memalign, 10},
    {"posix_memalign", step_posix_memalign, 15},
    {"valloc or pvalloc", step_pages, 5},
    {"free", step_free, 380},
    {"free many", step_free_many, 2},
    {"hand over", step_hand_over, 60},
    {"check", step_check, 50},
    {"malloc of an impossible size", step_impossible, 2},
    {"malloc_trim", step_trim, 1},
    {"mallinfo2", step_mallinfo, 1},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

void walk_step(struct walker *walker) {
    unsigned total = 0;
    for (size_t i = 0; i < OPERATIONS; i++) {
        total += operations[i].weight;
    }
    unsigned dice = (unsigned)random_below(&walker->random, total);
    size_t chosen = 0;
    while (dice >= operations[chosen].weight) {
        dice -= operations[chosen].weight;
        chosen++;
    }
    *current_step(walker) = (struct step){operations[chosen].name, NULL, NULL, 0, 0};
    operations[chosen].run(walker);
    walker->step++;
}

void walk_end(struct walker *walker) {
    for (size_t i = 0; i < OWN_SLOTS; i++) {
        if (walker->slots[i].start != NULL) {
            *current_step(walker) = (struct step){"final free", NULL, NULL, 0, 0};
            release(walker, &walker->slots[i]);
        }
    }
}

void exchange_create(void) {
    memset(exchange, 0, sizeof exchange);
}

void exchange_drain(struct walker *walker) {
    for (size_t i = 0; i < EXCHANGE_SLOTS; i++) {
        if (exchange[i].start != NULL) {
            *current_step(walker) = (struct step){"final free", NULL, NULL, 0, 0};
            release(walker, &exchange[i]);
        }
    }
}
