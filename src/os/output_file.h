/* output_file.h - a file that is complete or not there: written under another name and renamed.
 * Where a device or a link has the name, that stays, and what it leads to is written.
 *
 * What opens, writes or renames goes through kernel_call, what only looks through libc; nothing
 * allocates; every function keeps errno. Safe in signal handlers. */
#ifndef PRIM_OS_OUTPUT_FILE_H
#define PRIM_OS_OUTPUT_FILE_H

#include "base/compiler.h"

enum { OUTPUT_PATH_SIZE = 1024 };

struct output_file {
    int descriptor;
    bool has_failed;
    uint64_t size; /* written, or refused */
    char path[OUTPUT_PATH_SIZE];
    char temporary[OUTPUT_PATH_SIZE]; /* "": the file itself is written */
};

/* False if the file cannot be made, the path is too long, or a pipe or socket has it. */
bool output_file_open(struct output_file *file, const char *path);
void output_file_write(struct output_file *file, const void *bytes, size_t size);

/* Gives the file its name; false, and there is no new file of it, if anything went wrong. */
bool output_file_close(struct output_file *file);

/* Appends a text to a file, in place and in one system call; false if it cannot be written. */
bool output_file_append(const char *path, const char *text, size_t length);

/* Which file has a name at the moment: each file that is written as above is another one. The
 * clock cannot tell, because a file's time is that of the last tick. */
struct output_mark {
    uint64_t inode; /* 0: there is no file */
    uint64_t time_ns;
};

struct output_mark output_file_mark(const char *path);

#endif
