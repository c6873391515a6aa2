/* bits.h - arithmetic on powers of two. */
#ifndef PRIM_BASE_BITS_H
#define PRIM_BASE_BITS_H

#include "base/compiler.h"

/* Position of the highest set bit; value must not be 0. */
PRIM_INLINE unsigned bits_highest(size_t value) {
    return 63u ^ (unsigned)__builtin_clzll(value); /* GCC sees that this is one instruction */
}

/* Position of the lowest set bit; value must not be 0. */
PRIM_INLINE unsigned bits_lowest(uint64_t value) {
    return (unsigned)__builtin_ctzll(value);
}

/* How many bits are set: for few of them, and without the compiler's helper function. */
PRIM_INLINE unsigned bits_count(uint64_t value) {
    unsigned count = 0;
    for (; value; value &= value - 1) {
        count++;
    }
    return count;
}

PRIM_INLINE bool bits_is_power_of_two(size_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

/* Rounds down or up to a multiple of a power of two; rounding up may wrap to 0. */
PRIM_INLINE size_t bits_round_down(size_t value, size_t unit) {
    return value & ~(unit - 1);
}

PRIM_INLINE size_t bits_round_up(size_t value, size_t unit) {
    return (value + unit - 1) & ~(unit - 1);
}

PRIM_INLINE size_t bits_min(size_t a, size_t b) {
    return a < b ? a : b;
}

PRIM_INLINE size_t bits_max(size_t a, size_t b) {
    return a > b ? a : b;
}

PRIM_INLINE size_t bits_clamp(size_t value, size_t low, size_t high) {
    return bits_min(bits_max(value, low), high);
}

#endif
