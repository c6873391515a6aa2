/* slab_pages.c - see slab_pages.h. */
#include "objects/slab_pages.h"

#include "base/assert.h"
#include "os/memory.h"
#include "pages/returned.h"

/* A slab of several blocks has at most as many pages as asleep_pages has bits, be they as small as
 * pages get; those of one block have no use for it. */
#define SIZE_CLASS(index, size, slices, capacity)                                       \
    _Static_assert((capacity) == 1 || (slices) * (SLICE_SIZE / 4096) <= SLAB_PAGES_MAX, \
                   "a bit for each page");
#include "objects/size_classes.def"
#undef SIZE_CLASS

_Atomic(struct span *) slab_pages_busy;

/* How blocks and pages lie in a slab. Where pages are larger than slices, the first page may begin
 * before the slab, and the last one end behind it: such pages belong to other spans as well. They
 * never look wholly free, so they never sleep. */
struct layout {
    uintptr_t first_page; /* its address */
    size_t block_size;
    unsigned page_shift;
};

static struct layout layout_of(const struct span *slab) {
    size_t page = memory_page_size();
    return (struct layout){
        .first_page = bits_round_down(slab->address, page),
        .block_size = size_classes[slab->object_class].size,
        .page_shift = bits_lowest(page),
    };
}

uintptr_t slab_pages_address(const struct span *slab, unsigned page) {
    struct layout layout = layout_of(slab);
    return layout.first_page + ((uintptr_t)page << layout.page_shift);
}

/* The pages that the block at this address lies in. */
static uint64_t pages_of(const struct layout *layout, uintptr_t block) {
    size_t start = block - layout->first_page;
    size_t first = start >> layout->page_shift;
    size_t last = (start + layout->block_size - 1) >> layout->page_shift;
    return ~(uint64_t)0 << first & ~(uint64_t)0 >> (SLAB_PAGES_MAX - 1 - last);
}

static bool is_asleep(const struct span *slab, const struct layout *layout, size_t index) {
    uintptr_t block = slab->address + index * layout->block_size;
    return (pages_of(layout, block) & slab->asleep_pages) != 0;
}

/* Adds size bytes at this address to the counts of free bytes by page. */
static void add_free(const struct layout *layout, uint32_t *bytes, uintptr_t address, size_t size) {
    size_t start = address - layout->first_page;
    size_t end = start + size;
    for (size_t page = start >> layout->page_shift; start < end; page++) {
        size_t stop = bits_min((page + 1) << layout->page_shift, end);
        bytes[page] += (uint32_t)(stop - start);
        start = stop;
    }
}

/* The pages that no used block and no room for blocks to come lies in, sleeping ones too. No others
 * where a block that was freed twice made the list longer than the slab says. */
static uint64_t free_pages(const struct span *slab, const struct layout *layout) {
    uint32_t bytes[SLAB_PAGES_MAX] = {0};
    size_t size = layout->block_size;
    unsigned count = 0;
    for (void **block = slab->free_blocks; block; block = *block) {
        if (count++ == slab->free_count) {
            return slab->asleep_pages;
        }
        add_free(layout, bytes, (uintptr_t)block, size);
    }
    for (size_t i = 0; slab->asleep_pages && i < slab->carved_count; i++) {
        if (is_asleep(slab, layout, i)) {
            add_free(layout, bytes, slab->address + i * size, size);
        }
    }
    uintptr_t blocks_end = slab->address + slab->carved_count * size;
    if (slab->carved_count == size_classes[slab->object_class].capacity) { /* the tail */
        add_free(layout, bytes, blocks_end, span_end(slab) - blocks_end);
    }
    uint64_t pages = 0;
    for (unsigned page = 0; page < SLAB_PAGES_MAX; page++) {
        pages |= (uint64_t)(bytes[page] >> layout->page_shift) << page;
    }
    return pages;
}

/* Takes the blocks that lie in these pages out of the free list; returns how many. */
static unsigned unlink_blocks(struct span *slab, const struct layout *layout, uint64_t pages) {
    unsigned count = 0;
    void **link = &slab->free_blocks;
    while (*link) {
        void **block = *link;
        if (pages_of(layout, (uintptr_t)block) & pages) {
            *link = *block;
            count++;
        } else {
            link = block;
        }
    }
    return count;
}

uint64_t slab_pages_sleep(struct slab_set *set, struct span *slab) {
    struct layout layout = layout_of(slab);
    uint64_t pages = free_pages(slab, &layout) & ~slab->asleep_pages;
    if (pages) {
        unsigned count = unlink_blocks(slab, &layout, pages);
        slab_set_count_asleep(slab, -1);
        slab->asleep_pages |= pages;
        slab->asleep_count = (uint16_t)(slab->asleep_count + count);
        slab_set_count_asleep(slab, 1);
        slab->free_count = (uint16_t)(slab->free_count - count);
        slab_set_count_free(set, -(int32_t)count);
    }
    return pages;
}

unsigned slab_pages_wake(struct span *slab, uint64_t pages, char **first) {
    PRIM_ASSERT(pages && (pages & ~slab->asleep_pages) == 0);
    struct layout layout = layout_of(slab);
    uintptr_t start = slab_pages_address(slab, bits_lowest(pages));
    uintptr_t end = slab_pages_address(slab, bits_highest(pages) + 1);
    returned_need(start, end);
    size_t from = (start - slab->address) / layout.block_size;
    size_t to = bits_min((end - slab->address - 1) / layout.block_size + 1, slab->carved_count);
    slab_set_count_asleep(slab, -1);
    slab->asleep_pages &= ~pages;
    while (from < to && is_asleep(slab, &layout, from)) { /* by a page before these */
        from++;
    }
    while (from < to && is_asleep(slab, &layout, to - 1)) { /* by one behind */
        to--;
    }
    slab->asleep_count = (uint16_t)(slab->asleep_count - (to - from));
    slab_set_count_asleep(slab, 1);
    *first = (char *)slab->address + from * layout.block_size;
    return (unsigned)(to - from);
}

/* Consecutive pages asleep, from the lowest on, that wake about this many blocks. */
static uint64_t pages_to_wake(const struct span *slab, unsigned wanted) {
    struct layout layout = layout_of(slab);
    uintptr_t lowest = slab_pages_address(slab, bits_lowest(slab->asleep_pages));
    size_t index = (lowest - slab->address) / layout.block_size;
    size_t last_index = bits_min(index + wanted, slab->carved_count) - 1;
    uintptr_t block = slab->address + index * layout.block_size;
    uintptr_t last_block = slab->address + last_index * layout.block_size;
    uint64_t pages = pages_of(&layout, block) & slab->asleep_pages;
    unsigned last_page = bits_highest(pages_of(&layout, last_block));
    for (unsigned page = bits_highest(pages) + 1; page <= last_page; page++) {
        if ((slab->asleep_pages >> page & 1) == 0) {
            break; /* blocks that are used or in the free list lie there */
        }
        pages |= (uint64_t)1 << page;
    }
    return pages;
}

PRIM_COLD unsigned slab_pages_take(struct slab_set *set, unsigned wanted, char **first) {
    struct span *slab = set->asleep;
    if (slab == load_relaxed(&slab_pages_busy)) {
        slab = slab->next;
    }
    if (!slab) {
        return 0;
    }
    unsigned count = slab_pages_wake(slab, pages_to_wake(slab, wanted), first);
    PRIM_ASSERT(count > 0);
    slab->used_count = (uint16_t)(slab->used_count + count);
    set->used_count += count;
    slab_set_update(set, slab);
    return count;
}
