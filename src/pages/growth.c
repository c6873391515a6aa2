/* growth.c - see growth.h. */
#include "pages/growth.h"

#include "base/bits.h"
#include "os/memory.h"
#include "pages/huge.h"
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
struct growth growth_map(size_t slice_count) {
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
