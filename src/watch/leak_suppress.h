/* leak_suppress.h - leaks that a file says to pass over: lines "leak:PATTERN", as LeakSanitizer
 * reads them. A pattern is looked for in the functions and paths of a site's stack; '*' stands for
 * any text, '^' and '$' for the beginning and the end. '#' begins a comment. */
#ifndef PRIM_WATCH_LEAK_SUPPRESS_H
#define PRIM_WATCH_LEAK_SUPPRESS_H

#include "watch/leak_graph.h"

/* Whether the text holds what the pattern, which ends at the line's end, describes. */
bool leak_pattern_matches(const char *pattern, const char *text);

/* Everything that matches counts as ignored. Tells of a file that cannot be used, and of the first
 * line that is no pattern. */
void leak_suppress(struct leak_graph *graph, const char *path);

/* The same by such lines themselves. */
void leak_suppress_by(struct leak_graph *graph, const char *text);

#endif
