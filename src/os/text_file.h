/* text_file.h - the kernel's text files, read byte by byte in bounded space.
 *
 * All calls go through syscall(), as in memory.c, and nothing allocates. Every function keeps
 * errno; a file that is missing or cannot be read any further has simply come to its end. */
#ifndef PRIM_OS_TEXT_FILE_H
#define PRIM_OS_TEXT_FILE_H

#include "base/compiler.h"

enum { TEXT_FILE_END = -1 };

struct text_file {
    int descriptor;
    unsigned next;   /* first byte of the buffer not yet handed out; next <= length */
    unsigned length; /* bytes in the buffer */
    char buffer[512];
};

/* False, and then there is nothing to be closed, if there is no such file for us. */
bool text_file_open(struct text_file *file, const char *path);

void text_file_close(struct text_file *file);

/* The next byte, 0 to 255, or TEXT_FILE_END. */
int text_file_byte(struct text_file *file);

/* Reads up to one of two bytes or the line's end, whichever comes first, and returns it, or
 * TEXT_FILE_END. What was before it becomes a string in text; what does not fit is dropped. */
int text_file_field(struct text_file *file, int end, int other_end, char *text, size_t room);

/* Reads a decimal number and the one byte behind it, which *behind tells; false if there is no
 * number or if it exceeds 64 bits. */
bool text_file_decimal(struct text_file *file, uint64_t *number, int *behind);

/* The decimal number that a file begins with; false if there is none. */
bool text_file_number(const char *path, uint64_t *number);

#endif
