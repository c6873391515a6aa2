/* option_table.h - options.def as data: names, ranges, where the values are and came from. */
#ifndef PRIM_SETTINGS_OPTION_TABLE_H
#define PRIM_SETTINGS_OPTION_TABLE_H

#include "base/atomics.h"
#include "base/print.h"
#include "settings/options.h"

enum option_type {
    TYPE_BOOL,
    TYPE_SIZE,
    TYPE_AUTO_SIZE,
    TYPE_TIME_MS,
    TYPE_CHOICE,
    TYPE_TEXT,
};

/* When an option may be set. */
enum option_when { WHEN_START, WHEN_ANY_TIME };

/* One row of the table. Texts are offsets, not pointers, so that the table needs no relocation and
 * its pages stay shared and untouched until somebody sets an option. */
struct option_row {
    uint64_t initial;
    uint64_t maximum;
    uint32_t minimum;
    uint16_t texts;   /* where the name lies; unit and sentence follow it, each terminated */
    uint8_t index;    /* enum option_index */
    uint8_t type : 4; /* enum option_type */
    uint8_t when : 4; /* enum option_when */
};

enum { OPTION_NAME_SIZE = 16 };   /* of the longest name, terminated */
enum { OPTION_TEXT_SIZE = 1024 }; /* of the longest TEXT */

enum option_index {
#define OPTION(name, type, when, initial, minimum, maximum, unit, sentence) OPTION_INDEX_##name,
#include "settings/options.def"
#undef OPTION
    OPTION_COUNT
};

extern PRIM_HIDDEN const struct option_row option_rows[OPTION_COUNT];
extern PRIM_HIDDEN PRIM_EVEN const struct option_texts option_texts; /* all of them in one piece */

/* Where an option's value came from; a later one of these overrides an earlier one, but the last
 * two are equal: there the later call wins. */
enum option_source {
    SOURCE_DEFAULT,
    SOURCE_GLIBC_VARIABLE,
    SOURCE_GLIBC_TUNABLES,
    SOURCE_LIST,
    SOURCE_VARIABLE,
    SOURCE_MALLOPT,
    SOURCE_PROGRAM,
};

extern PRIM_HIDDEN PRIM_EVEN _Atomic uint8_t
    option_sources[OPTION_COUNT]; /* (atomic: hint) of each value */

const char *option_name(const struct option_row *row);
const char *option_unit(const struct option_row *row);
const char *option_sentence(const struct option_row *row);

/* The row of a name in any case; the row whose name is nearest to a mistyped one, of which at least
 * half must be right. NULL where there is none. */
const struct option_row *option_row_named(const char *name, size_t length);
const struct option_row *option_row_nearest(const char *name, size_t length);

/* Gives an option a value in its range, unless a source that overrides this one has done so. A text
 * is shorter than OPTION_TEXT_SIZE; one without a byte is none. */
void option_set(const struct option_row *row, uint64_t value, enum option_source source);
void option_set_text(const struct option_row *row, const char *text, size_t length,
                     enum option_source source);

uint64_t option_value(const struct option_row *row); /* of a TEXT: its address */

PRIM_INLINE enum option_source option_source(const struct option_row *row) {
    return (enum option_source)load_relaxed(&option_sources[row->index]);
}
#endif
