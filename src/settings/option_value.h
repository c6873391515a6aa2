/* option_value.h - values as people write them: sizes and times with units, words. */
#ifndef PRIM_SETTINGS_OPTION_VALUE_H
#define PRIM_SETTINGS_OPTION_VALUE_H

#include "settings/option_table.h"

/* Whether a text of that length is the word, which is in lower case; the text may be in any. */
bool word_is(const char *text, size_t length, const char *word);

/* Whether it is one of the words for 1 and 0, which the value is then. */
bool word_is_switch(const char *text, size_t length, uint64_t *value);

/* Reads a value as the row's type takes it; false when it is malformed or out of range. */
bool option_parse(const struct option_row *row, const char *text, size_t length, uint64_t *value);

/* Whether a number is a value of the row's: never for a TEXT. */
bool option_accepts(const struct option_row *row, uint64_t value);

/* The factor of a unit of bytes: 1024 for K, k, KB and KiB, and so on to T; 0 for other text. */
uint64_t size_unit(const char *text, size_t length);

/* "8 MiB", "500 ms", "never more than a person needs": the greatest unit that divides the value. */
void option_print_value(struct print *out, const struct option_row *row, uint64_t value);

/* What the option takes: "64 KiB to 1 TiB", "0 or 1", "off or full". */
void option_print_range(struct print *out, const struct option_row *row);

#endif
