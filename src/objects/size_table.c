/* size_table.c - see size_table.h. */
#include "objects/size_table.h"

#include "objects/hardened.h"
#include "objects/sampler.h"
#include "settings/options.h"

_Atomic uint8_t size_table_bins[SMALL_TABLE_SIZE];
_Atomic bool size_table_is_young = true;

static unsigned class_for(size_t size) {
    bool is_young = load_relaxed(&size_table_is_young);
    if (is_young && size > 16) {
        size = (size_t)1 << (bits_highest(size - 1) + 1);
    }
    unsigned object_class = size_class_of(size);
    bool is_wide = is_young || options.min_align > 8 || hardened_is_on();
    return object_class == CLASS_OF_8 && is_wide ? CLASS_OF_16 : object_class;
}

/* All sizes of a class are alike, to a young process too: its powers of two are classes. */
PRIM_COLD void size_table_fill(void) {
    unsigned first_bin = load_relaxed(&sampler_size_max) && !hardened_is_on() ? BIN_COUNT : 0;
    size_t size = 0;
    for (unsigned object_class = 1; object_class <= SMALL_CLASS_LAST; object_class++) {
        unsigned bin = first_bin + class_for(size_classes[object_class].size);
        for (; size <= size_classes[object_class].size; size++) {
            store_relaxed(&size_table_bins[size], (uint8_t)bin);
        }
    }
}

PRIM_COLD void size_table_age(void) {
    if (load_relaxed(&size_table_is_young)) {
        store_relaxed(&size_table_is_young, false);
        size_table_fill();
    }
}
