/* profile.h - the heap profiler: samples, with the stacks that they came from, in files.
 *
 * One profile a process. Samples come from the sampler, or at a rate of 1 every call from a
 * watcher. Everything here is under the lock PROFILE, which is held while a file is written: other
 * threads' samples wait. A signal's handler writes the file itself if it gets the lock at once; if
 * not, whoever has it does so next. */
#ifndef PRIM_WATCH_PROFILE_H
#define PRIM_WATCH_PROFILE_H

#include "base/atomics.h"
#include "os/output_file.h"
#include "watch/profile_settings.h"

struct sample;
struct live_block;

/* Begins, and forgets what an earlier profile knew. False without memory. The settings' path is
 * used until the next start. */
bool profile_start(const struct profile_settings *settings);

/* No more samples are taken; what is known can still be written. */
void profile_stop(void);

/* Writes what is known now: to this file, or to the next numbered one if path is NULL. False if
 * there never was a profile, if there is no path, or if the file could not be written. */
bool profile_dump(const char *path);

/* A block begins and ends. The caller is where its allocation returns to, if that is known: frames
 * before it are the library's. */
void profile_record(void *block, const struct sample *sample, const void *caller);

/* The block ends, or goes on with another size if that is not 0. True if a recorded one ended. */
bool profile_forget(void *block, size_t size);

/* While realloc has a block, its address may become that of another: lifted out of the record, to
 * be ended or put back as it was. known: stays as it is if the block is not a recorded one. */
void profile_lift(const void *block, struct live_block *known);
void profile_settle(const struct live_block *known, bool is_over);

/* Whoever looks for leaks passes the block over. */
void profile_ignore(const void *block);

/* The recorded blocks, which stay as they are until profile_unlock_blocks(). NULL, and nothing is
 * locked, if there never was a profile. */
const struct live_table *profile_lock_blocks(void);
void profile_unlock_blocks(void);

/* Names the file for the leaks that this process found: the given name, in which %p stands for the
 * process's number, or with that number where another process may have written the file. is_ours:
 * we wrote it. */
void profile_name_leaks(char path[OUTPUT_PATH_SIZE], const char *given, bool is_ours);

/* At the end of the process. False if a handler ends it inside a call, which may hold locks. */
bool profile_exit(void);

extern PRIM_HIDDEN struct lock profile_lock; /* here for fork alone */

/* It begins true, so that it lies among variables that each process has a page of: a forked child
 * that asks takes no fault. */
extern PRIM_HIDDEN _Atomic bool profile_is_absent; /* (atomic: hint) there was no start yet */

PRIM_INLINE bool profile_was_started(void) {
    return !load_relaxed(&profile_is_absent);
}

/* In a forked child, where there was a start: it goes on in a file of its own. */
void profile_begin_child(void);

#endif
