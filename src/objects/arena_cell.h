/* arena_cell.h - pieces of 1 KiB for arenas that have little: sixteen in a slice.
 *
 * A slice of cells is a span with CLASS_ARENA and ARENA_CELLS; used_cells has a bit for each cell
 * in use. Slices with a free cell are in a list; one without a used cell goes back to the page
 * heap.
 *
 * Locks: CELLS, under which no other lock is taken. */
#ifndef PRIM_OBJECTS_ARENA_CELL_H
#define PRIM_OBJECTS_ARENA_CELL_H

#include "objects/arena.h"

/* A cell with whatever is in it, at a multiple of its size; NULL without memory. */
void *arena_cell_take(void);

void arena_cell_release(void *cell);

/* Whether a pointer into a slice of cells points into one in use. */
bool arena_cell_is_used(const struct span *slice, const void *pointer);

void arena_cell_fork_prepare(void);
void arena_cell_fork_parent(void);
void arena_cell_fork_child(void);

#endif
