/* table_reader.c - see table_reader.h. */
#include "watch/table_reader.h"

enum { LEB_MORE = 0x80, LEB_BITS = 7, LEB_SIGN = 0x40, WORD_BITS = 64 };

/* The bits of a LEB128 number; *shift tells how many, *last the byte that ended it. */
static uint64_t read_leb(struct table_reader *in, unsigned *shift, uint8_t *last) {
    uint64_t value = 0;
    *shift = 0;
    do {
        *last = (uint8_t)table_fixed(in, 1);
        if (*shift < WORD_BITS) {
            value |= (uint64_t)(*last & ~LEB_MORE) << *shift;
        }
        *shift += LEB_BITS;
    } while (*last & LEB_MORE);
    return value;
}

PRIM_COLD uint64_t table_unsigned(struct table_reader *in) {
    unsigned shift;
    uint8_t last;
    return read_leb(in, &shift, &last);
}

PRIM_COLD int64_t table_signed(struct table_reader *in) {
    unsigned shift;
    uint8_t last;
    uint64_t value = read_leb(in, &shift, &last);
    if ((last & LEB_SIGN) && shift < WORD_BITS) {
        value |= ~(uint64_t)0 << shift;
    }
    return (int64_t)value;
}

PRIM_COLD bool table_skip(struct table_reader *in, uint64_t bytes) {
    if ((uint64_t)(in->end - in->next) < bytes) {
        in->has_failed = true;
        in->next = in->end;
        return false;
    }
    in->next += bytes;
    return true;
}

PRIM_COLD bool table_address(struct table_reader *in, uint8_t encoding, bool is_difference,
                             uintptr_t *address) {
    uintptr_t place = (uintptr_t)in->next;
    switch (encoding & ENCODING_FORM) {
    case 0x00: /* a word */
    case 0x04:
    case 0x0c:
        *address = table_fixed(in, 8);
        break;
    case 0x01:
        *address = table_unsigned(in);
        break;
    case ENCODING_UNSIGNED4:
        *address = table_fixed(in, 4);
        break;
    case ENCODING_SIGNED4:
        *address = (uintptr_t)(intptr_t)(int32_t)table_fixed(in, 4);
        break;
    default:
        return false;
    }
    if (!is_difference && (encoding & ENCODING_BASE) == ENCODING_HERE) {
        *address += place;
    } else if (!is_difference && (encoding & ENCODING_BASE) != 0) {
        return false;
    }
    return !in->has_failed;
}
