/* glibc_knobs.h - the settings of glibc's malloc; the table is glibc_knobs.def.
 *
 * Our own options override GLIBC_TUNABLES, and those glibc's variables, as in glibc; a call of
 * mallopt overrides all. Numbers are read as glibc reads them (-1, 0x10, and 010 is eight), and may
 * have our units of bytes. What is malformed or out of glibc's range is ignored, as glibc does,
 * and told of only with options.verbose: the variable may be meant for another malloc. */
#ifndef PRIM_SETTINGS_GLIBC_KNOBS_H
#define PRIM_SETTINGS_GLIBC_KNOBS_H

#include "base/compiler.h"

enum glibc_knob {
#define KNOB(name, environment, parameter, number, type, minimum, maximum, action, option, \
             sentence)                                                                     \
    GLIBC_KNOB_##name,
#include "settings/glibc_knobs.def"
#undef KNOB
    GLIBC_KNOB_COUNT
};

/* What stood in the environment. */
struct glibc_settings {
    const char *values[GLIBC_KNOB_COUNT]; /* of each knob's own variable, or NULL */
    const char *tunables;                 /* of GLIBC_TUNABLES, or NULL */
};

/* Notes a variable, "NAME=value", if it is one of glibc's malloc. */
void glibc_knobs_note(struct glibc_settings *settings, const char *variable);

/* Sets the options that were noted. */
void glibc_knobs_apply(const struct glibc_settings *settings);

/* The variable of glibc's that sets an option, or "" where there is none. */
const char *glibc_knobs_variable(unsigned option_index);

/* mallopt: true for a parameter of glibc's and a value that it takes. */
bool glibc_knobs_mallopt(int parameter, int value);

#endif
