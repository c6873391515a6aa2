/* gzip.h - a gzip file (RFC 1952) written piece by piece, compressed by a small encoder of our own.
 *
 * Blocks of 32 KiB, each by itself: fixed codes, and matches found by a table of one candidate. */
#ifndef PRIM_WATCH_GZIP_H
#define PRIM_WATCH_GZIP_H

#include "os/output_file.h"

enum { GZIP_BLOCK = 32 << 10, GZIP_CANDIDATES = 4096 };

/* Large: for mapped memory. */
struct gzip {
    struct output_file *file;
    uint32_t crc;
    uint32_t length; /* of all, modulo 2^32 */
    unsigned used;   /* bytes of block */
    uint64_t bits;   /* not yet written, the lowest first */
    unsigned bit_count;
    size_t packed_used;
    uint16_t candidates[GZIP_CANDIDATES]; /* by hash: where such four bytes were last, plus 1 */
    uint8_t block[GZIP_BLOCK];
    uint8_t packed[GZIP_BLOCK / 8 * 9 + 64]; /* fixed codes take nine bits a byte at most */
};

void gzip_open(struct gzip *gzip, struct output_file *file);
void gzip_write(struct gzip *gzip, const void *bytes, size_t size);

/* Writes what is left; the file stays open. */
void gzip_close(struct gzip *gzip);

#endif
