/* options.h - what the user may set; the table is options.def.
 *
 * Written by options_read() under HEAP or in the constructor, before a second thread can exist in
 * ordinary programs; read anywhere. Until then every option has its default. Those of ANY_TIME
 * change while threads run: they are read with option_now(). */
#ifndef PRIM_SETTINGS_OPTIONS_H
#define PRIM_SETTINGS_OPTIONS_H

#include "base/compiler.h"

/* The C type behind each option type of the table. */
typedef uint64_t option_BOOL;
typedef uint64_t option_SIZE;
typedef uint64_t option_AUTO_SIZE;
typedef uint64_t option_TIME_MS;
typedef uint64_t option_CHOICE;
typedef const char *option_TEXT;

#define OPTION_AUTO UINT64_MAX /* the value of an AUTO_SIZE left to the library */

enum thp_choice { THP_AUTO, THP_ALWAYS, THP_NEVER }; /* options.thp */

struct options {
#define OPTION(name, type, when, initial, minimum, maximum, unit, sentence) option_##type name;
#include "settings/options.def"
#undef OPTION
};

extern PRIM_HIDDEN struct options options;

/* An option of ANY_TIME, which another thread may be changing. */
#define option_now(name) __atomic_load_n(&options.name, __ATOMIC_RELAXED)

/* Whether every call must take the slow door, because something there looks at it. */
PRIM_INLINE bool options_see_every_call(void) {
    return options.stats || option_now(perturb);
}

/* Whether free pages go back by their being idle: not where a fixed amount of them may stay. */
PRIM_INLINE bool options_return_idle(void) {
    return options.purge && option_now(trim_threshold) == OPTION_AUTO;
}

/* Reads PRIMALLOC_OPTIONS, PRIMALLOC_<NAME> and what glibc's malloc understands from the
 * environment. Unknown names and values out of range are reported in one line each on standard
 * error and otherwise ignored. */
void options_read(char **environment);

#endif
