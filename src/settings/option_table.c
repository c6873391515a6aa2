/* option_table.c - see option_table.h. */
#include "settings/option_table.h"

#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "settings/option_value.h"

struct options options = {
#define OPTION(name, type, when, initial, minimum, maximum, unit, sentence) .name = initial,
#include "settings/options.def"
#undef OPTION
};

struct option_texts {
#define OPTION(name, type, when, initial, minimum, maximum, unit, sentence) \
    char name[sizeof #name + sizeof unit + sizeof sentence];
#include "settings/options.def"
#undef OPTION
};

const struct option_texts option_texts = {
#define OPTION(name, type, when, initial, minimum, maximum, unit, sentence) \
    .name = #name "\0" unit "\0" sentence,
#include "settings/options.def"
#undef OPTION
};

const struct option_row option_rows[OPTION_COUNT] = {
#define OPTION(name, type, when, initial, minimum, maximum, unit, sentence)                      \
    {initial,     maximum,    minimum, offsetof(struct option_texts, name), OPTION_INDEX_##name, \
     TYPE_##type, WHEN_##when},
#include "settings/options.def"
#undef OPTION
};

#define OPTION(name, type, when, initial, minimum, maximum, unit, sentence) \
    _Static_assert(sizeof #name <= OPTION_NAME_SIZE, "distance() has room for shorter names only");
#include "settings/options.def"
#undef OPTION

/* How many options are TEXT. */
enum {
    TEXT_COUNT = 0
#define OPTION(name, type, when, initial, minimum, maximum, unit, sentence) \
    +(TYPE_##type == TYPE_TEXT)
#include "settings/options.def"
#undef OPTION
};

_Atomic uint8_t option_sources[OPTION_COUNT];

static PRIM_FAR char texts[TEXT_COUNT][OPTION_TEXT_SIZE]; /* values of TEXT options, terminated */

const char *option_name(const struct option_row *row) {
    return (const char *)&option_texts + row->texts;
}

const char *option_unit(const struct option_row *row) {
    return text_at(option_name(row), 1);
}

const char *option_sentence(const struct option_row *row) {
    return text_at(option_name(row), 2);
}

const struct option_row *option_row_named(const char *name, size_t length) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (word_is(name, length, option_name(&option_rows[i]))) {
            return &option_rows[i];
        }
    }
    return NULL;
}

/* Edit distance between a typed word and a name, both short. */
static unsigned distance(const char *text, size_t length, const char *name) {
    unsigned row[OPTION_NAME_SIZE];
    size_t width = strlen(name);
    for (size_t j = 0; j <= width; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned diagonal = row[0]++;
        for (size_t j = 0; j < width; j++) {
            unsigned replaced = diagonal + !word_is(text + i, 1, (char[2]){name[j]});
            diagonal = row[j + 1];
            row[j + 1] = (unsigned)bits_min(replaced, bits_min(row[j], diagonal) + 1);
        }
    }
    return row[width];
}

const struct option_row *option_row_nearest(const char *name, size_t length) {
    const struct option_row *nearest = NULL;
    size_t least = length / 2 + 1;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        unsigned edits = distance(name, length, option_name(&option_rows[i]));
        if (edits < least) {
            least = edits;
            nearest = &option_rows[i];
        }
    }
    return nearest;
}

static bool take_over(const struct option_row *row, enum option_source source) {
    _Atomic uint8_t *before = &option_sources[row->index];
    if (load_relaxed(before) > source && source < SOURCE_MALLOPT) {
        return false;
    }
    store_relaxed(before, (uint8_t)source);
    return true;
}

/* The options have a word each, in the order of the rows. */
_Static_assert(sizeof options == OPTION_COUNT * sizeof(uint64_t), "a word for each row");

static void *place_of(const struct option_row *row) {
    return (uint64_t *)&options + row->index;
}

void option_set(const struct option_row *row, uint64_t value, enum option_source source) {
    if (take_over(row, source)) {
        __atomic_store_n((uint64_t *)place_of(row), value, __ATOMIC_RELAXED);
    }
}

/* Each has a place of its own, however often it is set. */
static char *text_place(const struct option_row *row) {
    char *place = texts[0];
    for (const struct option_row *other = option_rows; other != row; other++) {
        place += other->type == TYPE_TEXT ? OPTION_TEXT_SIZE : 0;
    }
    return place;
}

void option_set_text(const struct option_row *row, const char *text, size_t length,
                     enum option_source source) {
    if (take_over(row, source)) {
        char *copy = memcpy(text_place(row), text, length);
        copy[length] = '\0';
        *(const char **)place_of(row) = length ? copy : NULL;
    }
}

uint64_t option_value(const struct option_row *row) {
    return __atomic_load_n((const uint64_t *)place_of(row), __ATOMIC_RELAXED);
}
