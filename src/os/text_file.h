/* text_file.h - the kernel's text files, read in bounded space.
 *
 * All calls go through kernel_call, as in memory.c, and nothing allocates. Every function keeps
 * errno; a file that is missing or cannot be read any further has simply come to its end. */
#ifndef PRIM_OS_TEXT_FILE_H
#define PRIM_OS_TEXT_FILE_H

#include "base/compiler.h"

enum { TEXT_FILE_END = -1 };

struct text_file {
    int descriptor;
    unsigned next;    /* first byte of the buffer not yet handed out; next <= length */
    unsigned length;  /* bytes in the buffer */
    bool is_unasked;  /* who confines the process waits until it is closed */
    char buffer[448]; /* less is more calls, more is more of a small stack */
};

/* False, and then there is nothing to be closed, if there is no such file for us. */
bool text_file_open(struct text_file *file, const char *path);

/* The same for what nobody asked us to look at: in a process that is confined there is no file. */
bool text_file_open_unasked(struct text_file *file, const char *path);

void text_file_close(struct text_file *file);

/* The next byte, 0 to 255, or TEXT_FILE_END. */
int text_file_byte(struct text_file *file);

/* The next line as a string without its end, in the file's buffer or in the room, where what does
 * not fit is dropped; the caller's to change, until the next call. NULL at the file's end. In a
 * line libc's string functions find things faster than any reader of bytes. */
char *text_file_line(struct text_file *file, char *room, size_t size);

/* Reads a decimal number and moves *text behind it; false, and the number undefined, if there is
 * none or if it exceeds 64 bits. */
bool text_decimal(const char **text, uint64_t *number);

/* The decimal number that a file begins with, which nobody asked for; false if there is none. */
bool text_file_number(const char *path, uint64_t *number);

#endif
