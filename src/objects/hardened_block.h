/* hardened_block.h - how a block of a hardened heap becomes the program's, and ends to be it. */
#ifndef PRIM_OBJECTS_HARDENED_BLOCK_H
#define PRIM_OBJECTS_HARDENED_BLOCK_H

#include "objects/hardened_slab.h"
#include "settings/options.h"

/* Ends the program, unless the user wants to hear only. */
void hardened_complain(const char *what, const char *call, const void *block);

/* Whether a block's first unit is all zero, as free leaves it. */
PRIM_INLINE bool hardened_is_zero(const void *block) {
    const uint64_t *words = block;
    return PRIM_LIKELY((words[0] | words[1]) == 0);
}

/* Whether nobody has written to the block since it was freed. */
PRIM_INLINE bool hardened_is_untouched(const void *block) {
    return hardened_is_zero(block) || options.zero_max < HARDENED_UNIT;
}

/* The block is the program's. */
PRIM_INLINE void *hardened_begin(void *block, unsigned object_class) {
    store_relaxed(hardened_state_here(block), (uint8_t)object_class);
    return block;
}

/* The class of the live block that begins here, which ends; 0 if none does. Two threads that free a
 * block at the very same moment may both see it live: an exchange costs as much as all the rest. */
PRIM_INLINE unsigned hardened_end(void *block) {
    _Atomic uint8_t *state = hardened_state_of(block);
    unsigned object_class = PRIM_LIKELY(state != NULL) ? load_relaxed(state) : 0;
    if (PRIM_LIKELY(object_class)) {
        store_relaxed(state, 0);
    }
    return object_class;
}

#endif
