/* block_bounds.c - see block_bounds.h. */
#include "objects/block_bounds.h"

#include "objects/hardened_slab.h"
#include "objects/size_class.h"
#include "pages/span.h"

enum { SLICES_BACK_MAX = 1 << 16 }; /* 1 GiB */

/* In line they are for those in a hurry. */
static PRIM_NOINLINE struct span *span_around(const void *block) {
    return span_of_block(block);
}

static PRIM_NOINLINE unsigned class_around(const void *pointer) {
    return span_class_of(pointer);
}

static PRIM_NOINLINE bool is_heap(uintptr_t address) {
    return span_of_slice(address) != NULL;
}

/* Only the first slice of a large block tells its class: the one that the pointer follows. */
static struct block_bounds large_around(uintptr_t address) {
    uintptr_t slice = address & ~(uintptr_t)(SLICE_SIZE - 1);
    for (unsigned i = 0; i < SLICES_BACK_MAX && slice >= SLICE_SIZE; i++, slice -= SLICE_SIZE) {
        unsigned object_class = class_around((void *)slice);
        if (object_class) {
            struct span *span = span_around((void *)slice);
            bool is_inside = span_state(span) == SPAN_LARGE && address < span_end(span);
            return is_inside ? (struct block_bounds){span->address, span_size(span), object_class}
                             : (struct block_bounds){0};
        }
        if (!is_heap(slice)) {
            break;
        }
    }
    return (struct block_bounds){0};
}

struct block_bounds block_bounds_of(const void *pointer) {
    uintptr_t address = (uintptr_t)pointer;
    unsigned object_class = class_around(pointer);
    if (object_class == 0) {
        return is_heap(address) ? large_around(address) : (struct block_bounds){0};
    }
    if (object_class > CLASS_LARGE) {
        return (struct block_bounds){.object_class = object_class};
    }
    struct span *span = span_around(pointer);
    if (object_class == CLASS_LARGE) {
        return (struct block_bounds){span->address, span_size(span), object_class};
    }
    const struct hardened_slab *hardened = hardened_slab_of(pointer);
    uintptr_t start = hardened ? hardened->start : span->address;
    size_t count = hardened ? hardened->count : size_classes[object_class].capacity;
    size_t size = size_classes[object_class].size;
    size_t index = (address - start) / size;
    if (address < start || index >= count) { /* before the slab's first block, or behind its last */
        return (struct block_bounds){.object_class = object_class};
    }
    return (struct block_bounds){start + index * size, size, object_class};
}
