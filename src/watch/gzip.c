/* gzip.c - see gzip.h; the format is RFC 1951's with fixed codes (3.2.6). */
#include "watch/gzip.h"

#include <string.h>

#include "base/bits.h"

enum {
    MATCH_LEAST = 4,
    MATCH_MOST = 258,
    END_OF_BLOCK = 256,
    LENGTH_CODES = 257, /* the code of the shortest match, 3 */
    DISTANCE_BITS = 5,
};

static void put_bits(struct gzip *gzip, uint32_t value, unsigned count) {
    gzip->bits |= (uint64_t)value << gzip->bit_count;
    gzip->bit_count += count;
    while (gzip->bit_count >= 8) {
        gzip->packed[gzip->packed_used++] = (uint8_t)gzip->bits;
        gzip->bits >>= 8;
        gzip->bit_count -= 8;
    }
}

/* Codes are written from their highest bit on. */
static void put_code(struct gzip *gzip, uint32_t code, unsigned count) {
    uint32_t reversed = 0;
    for (unsigned i = 0; i < count; i++) {
        reversed |= (code >> i & 1) << (count - 1 - i);
    }
    put_bits(gzip, reversed, count);
}

/* A byte, the end of the block, or the code of a length. */
static void put_symbol(struct gzip *gzip, unsigned symbol) {
    if (symbol < 144) {
        put_code(gzip, 0x30 + symbol, 8);
    } else if (symbol < 256) {
        put_code(gzip, 0x190 + symbol - 144, 9);
    } else if (symbol < 280) {
        put_code(gzip, symbol - 256, 7);
    } else {
        put_code(gzip, 0xc0 + symbol - 280, 8);
    }
}

/* Lengths and distances: codes in groups of 4 and 2, each group with one bit more behind the code
 * than the one before. value counts from 0, group_bits is 2 or 1. Returns the code; *extra bits are
 * to follow, the lowest of value. */
static unsigned code_of(unsigned value, unsigned group_bits, unsigned *extra) {
    unsigned group = 1u << group_bits;
    *extra = value < 2 * group ? 0 : bits_highest(value) - group_bits;
    return (*extra << group_bits) + (value >> *extra);
}

static void put_match(struct gzip *gzip, unsigned length, unsigned distance) {
    unsigned extra;
    if (length == MATCH_MOST) {
        put_symbol(gzip, 285);
    } else {
        put_symbol(gzip, LENGTH_CODES + code_of(length - 3, 2, &extra));
        put_bits(gzip, (length - 3) & ((1u << extra) - 1), extra);
    }
    put_code(gzip, code_of(distance - 1, 1, &extra), DISTANCE_BITS);
    put_bits(gzip, (distance - 1) & ((1u << extra) - 1), extra);
}

static uint32_t four_bytes(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static unsigned match_length(const struct gzip *gzip, unsigned from, unsigned at) {
    unsigned most = gzip->used - at < MATCH_MOST ? gzip->used - at : MATCH_MOST;
    unsigned length = 0;
    while (length < most && gzip->block[from + length] == gzip->block[at + length]) {
        length++;
    }
    return length;
}

static void flush_block(struct gzip *gzip, bool is_last) {
    memset(gzip->candidates, 0, sizeof gzip->candidates);
    put_bits(gzip, is_last, 1);
    put_bits(gzip, 1, 2); /* fixed codes */
    for (unsigned at = 0; at < gzip->used;) {
        unsigned length = 0;
        if (at + MATCH_LEAST <= gzip->used) {
            uint32_t hash = four_bytes(gzip->block + at) * 0x9e3779b1u >> 20;
            unsigned candidate = gzip->candidates[hash];
            gzip->candidates[hash] = (uint16_t)(at + 1);
            length = candidate ? match_length(gzip, candidate - 1, at) : 0;
            if (length >= MATCH_LEAST) {
                put_match(gzip, length, at - (candidate - 1));
            }
        }
        if (length < MATCH_LEAST) {
            put_symbol(gzip, gzip->block[at]);
            length = 1;
        }
        at += length;
    }
    put_symbol(gzip, END_OF_BLOCK);
    if (is_last) {
        put_bits(gzip, 0, 7); /* the last byte is whole */
        gzip->bit_count = 0;
    }
    output_file_write(gzip->file, gzip->packed, gzip->packed_used);
    gzip->packed_used = 0;
    gzip->used = 0;
}

/* RFC 1952, 8, four bits at a time. */
static uint32_t add_to_crc(uint32_t crc, const uint8_t *bytes, size_t size) {
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

PRIM_COLD void gzip_open(struct gzip *gzip, struct output_file *file) {
    static const uint8_t head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    gzip->file = file;
    gzip->crc = gzip->length = gzip->used = gzip->bit_count = 0;
    gzip->bits = 0;
    gzip->packed_used = sizeof head;
    memcpy(gzip->packed, head, sizeof head);
}

PRIM_COLD void gzip_write(struct gzip *gzip, const void *bytes, size_t size) {
    gzip->crc = add_to_crc(gzip->crc, bytes, size);
    gzip->length += (uint32_t)size;
    while (size) {
        if (gzip->used == GZIP_BLOCK) {
            flush_block(gzip, false);
        }
        size_t part = bits_min(size, GZIP_BLOCK - gzip->used);
        memcpy(gzip->block + gzip->used, bytes, part);
        gzip->used += (unsigned)part;
        bytes = (const char *)bytes + part;
        size -= part;
    }
}

PRIM_COLD void gzip_close(struct gzip *gzip) {
    flush_block(gzip, true);
    put_bits(gzip, gzip->crc, 32);
    put_bits(gzip, gzip->length, 32);
    output_file_write(gzip->file, gzip->packed, gzip->packed_used);
}
