/* block_bounds.c - see block_bounds.h. */
#include "objects/block_bounds.h"

#include "objects/hardened_slab.h"
#include "objects/large.h"
#include "objects/size_class.h"

/* In line they are for those in a hurry. */
static PRIM_NOINLINE struct span *span_around(const void *block) {
    return span_of_block(block);
}

static PRIM_NOINLINE unsigned class_around(const void *pointer) {
    return span_class_of(pointer);
}

struct block_bounds block_bounds_of(const void *pointer) {
    uintptr_t address = (uintptr_t)pointer;
    unsigned object_class = class_around(pointer);
    if (object_class == 0 || object_class == CLASS_LARGE) {
        const struct span *span = large_around(address);
        return span ? (struct block_bounds){span->address, span_size(span), span->object_class}
                    : (struct block_bounds){0};
    }
    if (object_class > CLASS_LARGE) {
        return (struct block_bounds){.object_class = object_class};
    }
    const struct span *span = span_around(pointer);
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
