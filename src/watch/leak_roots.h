/* leak_roots.h - where a program can have pointers beside its blocks: globals, stacks, registers
 * and thread-local data. */
#ifndef PRIM_WATCH_LEAK_ROOTS_H
#define PRIM_WATCH_LEAK_ROOTS_H

#include "watch/leak_graph.h"

/* Makes a graph of the recorded blocks and follows everything that the program can reach, with all
 * other threads stopped meanwhile; tells if they could not be. False without memory, or blind. */
bool leak_roots_follow(struct leak_graph *graph, const struct live_table *blocks,
                       bool *are_threads_missed);

#endif
