/* check.h - options.check: what a program does wrong with its blocks, found and told.
 *
 * A watcher that puts red zones around each block, keeps freed blocks in a quarantine, filled, and
 * knows of each block who asked for it and who freed it (check_table.h). Zones and fillings are
 * looked at when a block is freed or reallocated, when it leaves the quarantine, at exit, when the
 * program asks, and with the level full also every so many calls, all of them.
 *
 * Nothing wrong is carried out: a free of what is no block, or free already, is ignored, and
 * realloc of it gives NULL. Blocks of before the checks began, and of libc, pass as they are.
 *
 * Lock: CHECKS, for the table and while a report is put together and written. It is not held while
 * the plain allocator runs. */
#ifndef PRIM_WATCH_CHECK_H
#define PRIM_WATCH_CHECK_H

#include "objects/block_bounds.h"
#include "watch/check_table.h"

enum check_level { CHECK_OFF, CHECK_IGNORE, CHECK_REPORT, CHECK_ABORT, CHECK_FULL };

enum check_fault {
    FAULT_NONE,
#define FAULT(name, status, sentence) FAULT_##name,
#include "watch/faults.def"
#undef FAULT
    FAULT_COUNT
};

/* As glibc's <mcheck.h> has it. */
enum check_status { CHECK_DISABLED = -1, CHECK_OK, CHECK_FREE, CHECK_HEAD, CHECK_TAIL };
typedef void check_handler(int status);

/* One fault, as a report needs it. */
struct check_finding {
    enum check_fault fault;
    uintptr_t pointer;                 /* that the program passed, or the byte that was changed */
    const struct check_record *record; /* the block concerned, or NULL */
    const struct request *request;     /* the call that met it, or NULL: a look at all blocks */
    struct check_stack now;
};

/* Registers the watcher if the options ask for it. */
void check_begin(void);

/* In the constructor, if it is so: from here on stacks are captured. */
void check_prepare(void);

/* Begins now, unless other threads have blocks already; a handler hears of faults in place of a
 * report and the program's end. */
bool check_begin_late(check_handler *handler);

/* Looks at all blocks; returns how many faults there were. None in a signal handler that
 * interrupted us, where check_one knows nothing either. */
unsigned check_all(const char *occasion);

/* Looks at one block; what was done to its zones has the consequences of any look. */
enum check_status check_one(const void *block);

/* Of a block in an arena: where the plain block begins, or the pointer itself; makes the program's
 * block of a plain one; the arena is about to end with all its blocks. */
const void *check_place(const void *block);
void check_show(void **block, size_t *size);
void check_end_arena(struct arena *arena);

/* What is added to each block of this alignment. */
size_t check_zones_size(size_t alignment);

/* In exit handlers: a last look. */
void check_finish(void);

/* Writes the screen. Lock: CHECKS. */
void check_report(const struct check_finding *finding, const char *occasion);

void check_capture(struct check_stack *stack, const void *caller);

/* The record of the program's block in the place of a plain one, or NULL. Lock: CHECKS. */
struct check_record *check_record_in(const struct block_bounds *bounds);

extern PRIM_HIDDEN struct lock checks_lock; /* here for fork alone */

#endif
