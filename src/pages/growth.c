/* growth.c - see growth.h. */
#include "pages/growth.h"

#include "base/bits.h"
#include "os/alone.h"
#include "os/memory.h"
#include "pages/huge.h"
#include "pages/limits.h"
#include "pages/page_heap.h"
#include "settings/options.h"

/* Address space is taken in steps that grow with the heap: small processes stay small under
 * address-space limits, large ones make few system calls. */
enum {
    GROWTH_MIN = 1 << 20,
    GROWTH_SMALL = 2 << 20, /* mapped: from here on in whole huge pages */
    GROWTH_MAX = 64 << 20,
    GROWTH_DIVISOR = 4,
};

struct growth {
    uintptr_t start; /* 0: there is no room */
    size_t size;     /* in bytes */
    bool is_pool;    /* huge pages of the system's pool */
};

/* Maps size bytes at a multiple of unit anywhere. */
static uintptr_t map_anywhere(size_t size, size_t unit) {
    size_t slack = unit > memory_page_size() ? unit - memory_page_size() : 0;
    uintptr_t mapped = (uintptr_t)memory_map(size + slack);
    if (!mapped) {
        return 0;
    }
    uintptr_t start = bits_round_up(mapped, unit);
    if (start > mapped) {
        memory_unmap((void *)mapped, start - mapped);
    }
    if (mapped + slack > start) {
        memory_unmap((void *)(start + size), mapped + slack - start);
    }
    return start;
}

/* Maps at least size bytes, from a multiple of unit to one or to what we have: just below that, or
 * else anywhere. */
static struct growth map_growth(size_t size, size_t unit) {
    size = bits_round_up(size, unit);
    if (page_heap.newest_address > size) {
        uintptr_t start = bits_round_down(page_heap.newest_address - size, unit);
        struct growth growth = {start, page_heap.newest_address - start, false};
        if (memory_map_at((void *)growth.start, growth.size)) {
            return growth;
        }
    }
    return (struct growth){map_anywhere(size, unit), size, false};
}

/* Growth that is not small begins at whole huge pages, so that it can consist of such. */
static struct growth map_slices(size_t slice_count) {
    if (options.large_os_pages) {
        size_t size = bits_round_up(slice_count * SLICE_SIZE, HUGE_SIZE);
        uintptr_t start = huge_map_pool(size);
        if (start) {
            return (struct growth){start, size, true};
        }
    }
    size_t unit = bits_max(SLICE_SIZE, memory_page_size());
    size_t needed = slice_count * SLICE_SIZE;
    size_t mapped = load_relaxed(&page_heap.mapped_slices) * SLICE_SIZE;
    size_t least = mapped >= GROWTH_SMALL ? HUGE_SIZE : GROWTH_MIN;
    size_t step = bits_clamp(mapped / GROWTH_DIVISOR, least, GROWTH_MAX);
    size_t size = bits_max(needed + option_now(top_pad), step);
    struct growth growth = map_growth(size, size >= HUGE_SIZE ? HUGE_SIZE : unit);
    return growth.start ? growth : map_growth(needed, unit);
}

PRIM_COLD struct span *growth_extend(size_t slice_count) {
    if (slice_count + load_relaxed(&page_heap.mapped_slices) > UINT32_MAX / 2) {
        return NULL; /* a span counts its slices in 32 bits, and all of them may be joined */
    }
    struct growth growth = map_slices(slice_count);
    if (!growth.start) {
        return NULL;
    }
    if (growth.start + growth.size > (uintptr_t)1 << PRIM_ADDRESS_BITS ||
        !span_cover(growth.start, growth.size)) {
        memory_unmap((void *)growth.start, growth.size);
        return NULL;
    }
    if (growth.is_pool) {
        span_set_marks(growth.start, growth.start + growth.size, MARK_POOL, true);
    } else {
        memory_name((void *)growth.start, growth.size, "primalloc heap");
        page_heap.newest_address = growth.start;
    }
    size_t mapped = load_relaxed(&page_heap.mapped_slices) + growth.size / SLICE_SIZE;
    store_relaxed(&page_heap.mapped_slices, mapped);
    limits_note_growth(mapped * SLICE_SIZE);
    huge_note_growth(growth.start, growth.size, mapped * SLICE_SIZE);
    if (!process_is_alone()) {
        uintptr_t taken = growth.start + slice_count * SLICE_SIZE; /* the rest may be a vast pad */
        span_touch(taken, bits_min(growth.start + growth.size, taken + GROWTH_MAX));
    }
    return page_heap_insert(span_create(growth.start, growth.size / SLICE_SIZE, SPAN_BUSY),
                            SPAN_CLEAN);
}
