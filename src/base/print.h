/* print.h - text into a caller's buffer without allocation, stdio or locale.
 *
 * A full buffer silently keeps what fits: these lines go to people, not to parsers. */
#ifndef PRIM_BASE_PRINT_H
#define PRIM_BASE_PRINT_H

#include "base/compiler.h"

struct print {
    char *text;      /* (const) the caller's buffer */
    size_t capacity; /* (const) its size in bytes */
    size_t length;   /* bytes written so far; text is not terminated */
};

PRIM_INLINE struct print print_to(char *text, size_t capacity) {
    return (struct print){text, capacity, 0};
}

void print_text(struct print *out, const char *text);
/* As printf does, which formats with %s, %u, %lu and %#lx only. */
void print_format(struct print *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void print_bytes(struct print *out, const char *text, size_t length);
void print_padding(struct print *out, size_t column); /* spaces up to there, at least one */
void print_decimal(struct print *out, uint64_t value);
void print_hexadecimal(struct print *out, uint64_t value);
void print_byte_count(struct print *out, uint64_t count); /* "1 byte", "7 bytes" */
/* Where an address lies, seen from a block: "3 bytes beyond the end of". */
void print_place(struct print *out, uintptr_t address, uintptr_t start, uintptr_t end);

#endif
