/* table_reader.h - the numbers of DWARF tables, read one after the other in bounds. */
#ifndef PRIM_WATCH_TABLE_READER_H
#define PRIM_WATCH_TABLE_READER_H

#include <string.h>

#include "base/compiler.h"

/* Whoever reads beyond the end gets zeros, and has_failed. */
struct table_reader {
    const uint8_t *next;
    const uint8_t *end;
    bool has_failed;
};

/* A number of 1, 2, 4 or 8 bytes in the machine's order. */
PRIM_INLINE uint64_t table_fixed(struct table_reader *in, unsigned size) {
    uint64_t value = 0;
    if ((size_t)(in->end - in->next) < size) {
        in->has_failed = true;
        in->next = in->end;
        return 0;
    }
    memcpy((char *)&value + (PRIM_IS_BIG_ENDIAN ? sizeof value - size : 0), in->next, size);
    in->next += size;
    return value;
}

uint64_t table_unsigned(struct table_reader *in); /* ULEB128 */
int64_t table_signed(struct table_reader *in);    /* SLEB128 */

/* Skips bytes; false if there are fewer. */
bool table_skip(struct table_reader *in, uint64_t bytes);

/* How addresses are written: the low half of an encoding tells the form, the upper half what it is
 * relative to. */
enum table_encoding {
    ENCODING_SIGNED4 = 0x0b,
    ENCODING_UNSIGNED4 = 0x03,
    ENCODING_FORM = 0x0f,
    ENCODING_HERE = 0x10,   /* relative to the place of the number itself */
    ENCODING_HEADER = 0x30, /* relative to the start of .eh_frame_hdr */
    ENCODING_BASE = 0x70,
};

/* A number in one of these forms, made an address unless is_difference. False for forms that no
 * linker writes into these tables. */
bool table_address(struct table_reader *in, uint8_t encoding, bool is_difference,
                   uintptr_t *address);

#endif
