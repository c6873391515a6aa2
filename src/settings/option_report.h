/* option_report.h - what the options say on standard error: complaints, the help, the settings. */
#ifndef PRIM_SETTINGS_OPTION_REPORT_H
#define PRIM_SETTINGS_OPTION_REPORT_H

#include "settings/option_table.h"

/* One line each; name and value are what the user wrote. */
void report_unknown_option(const char *name, size_t length);
void report_wrong_value(const struct option_row *row, const char *value, size_t length);
void report_wrong_knob(const char *prefix, const char *name, const char *value, size_t length);

/* options.verbose: what mallopt changed. */
void report_change(const struct option_row *row);

/* The table that `PRIMALLOC_OPTIONS=help` prints: a row for each option. */
void report_help(void);

/* Each option's value and where it came from. */
void report_settings(void);

#endif
