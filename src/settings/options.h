/* options.h - what the user may set; the table is options.def.
 *
 * Written once, by options_read() under the process lock, before a second thread can exist in
 * ordinary programs; read anywhere. Until then every option has its default. */
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
#define OPTION(name, type, initial, minimum, maximum, unit, sentence) option_##type name;
#include "settings/options.def"
#undef OPTION
};

extern PRIM_HIDDEN struct options options;

/* Reads PRIMALLOC_OPTIONS and PRIMALLOC_<NAME> from the environment. Unknown names and values out
 * of range are reported in one line each on standard error and otherwise ignored. */
void options_read(char **environment);

#endif
