/* What the modules' tests share: cmocka, a seed that is printed, threads, captured output, views of
 * the page heap. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include "support/support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pages/page_heap.h"

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* A value of errno that no system call sets. */
enum { ERRNO_MARK = 7777 };

/* A generator with a new seed, which is printed; PRIM_TEST_SEED=NUMBER repeats a run. */
struct random unit_random(void);

/* Runs the body in count threads at once, numbered from 0, and waits for all of them. */
void unit_run_threads(unsigned count, void (*body)(unsigned number));

/* Collects what an action writes to standard error, terminated; returns the length. */
size_t unit_capture_errors(char *text, size_t size, void (*action)(const void *),
                           const void *argument);

/* The signal that ends a forked child in which the action runs, or 0 when the action returns. */
int unit_signal_of(void (*action)(void));

/* How many bytes of a range are resident, in whole pages. */
size_t unit_resident(const void *address, size_t size);

/* From now on only what is touched gets pages: no huge ones, nor folios, whatever the system's
 * settings ask for. */
void unit_touch_single_pages(void);

/* Locks pages into memory, which a process may be refused, and unlocks them. Sanitizers have an
 * mlock that does nothing. */
bool unit_lock_pages(const void *address, size_t size);
bool unit_unlock_pages(const void *address, size_t size);

/* A free extent of the page heap, as a copy. */
struct unit_extent {
    uintptr_t address;
    size_t slice_count;
};

/* Copies the extents of a set, smallest first, lowest address first; returns how many. */
size_t unit_extents(const struct extent_set *set, struct unit_extent *extents, size_t room);

/* How many slices of a span lie in such extents. */
size_t unit_overlap(const struct span *span, const struct unit_extent *extents, size_t count);

/* Slices of the page heap that are neither clean nor dirty. */
size_t unit_slices_in_use(void);

/* Whether each byte has this value. */
bool unit_is_filled(const char *bytes, size_t size, char value);

#endif
