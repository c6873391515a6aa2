/* complaint.h - what goes wrong in a program, told to whoever asked to hear of it.
 *
 * With options.show_errors a line goes to standard error, for the first so many of each kind, and
 * without it for the first double free; a function that the program has set hears of all instead.
 * Called with no lock held. */
#ifndef PRIM_OBJECTS_COMPLAINT_H
#define PRIM_OBJECTS_COMPLAINT_H

#include "base/compiler.h"

enum { COMPLAINT_LINES_MAX = 16 };

/* The error is an errno; the message is one line without its end. Whoever sets a function does so
 * before other threads could complain; NULL takes it back. */
typedef void complaint_function(int error, const char *message, void *context);
void complaint_set_function(complaint_function *function, void *context);

/* ENOMEM: no memory for a block of this size. EINVAL: call met a pointer that is not ours; a free
 * block was freed. */
void complaint_memory(size_t size);
void complaint_foreign(const char *call, const void *pointer);
void complaint_double_free(const void *block);

#endif
