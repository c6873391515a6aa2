/* options.c - parses the environment into the table of options.def. */
#include "settings/options.h"

#include <string.h>

#include "base/bits.h"
#include "base/print.h"
#include "os/process.h"

struct options options = {
#define OPTION(name, type, initial, minimum, maximum, unit, sentence) .name = initial,
#include "settings/options.def"
#undef OPTION
};

enum option_type { TYPE_BOOL, TYPE_SIZE, TYPE_AUTO_SIZE, TYPE_TIME_MS, TYPE_CHOICE, TYPE_TEXT };

/* One row of the table, as data. Text fields are arrays, not pointers, so that the table needs no
 * relocation and its pages stay shared and untouched until somebody sets an option. */
struct option_row {
    char name[16];
    char unit[20];
    char sentence[88];
    uint16_t offset; /* of the value in struct options */
    uint8_t type;    /* enum option_type */
    uint64_t minimum;
    uint64_t maximum;
};

static const struct option_row rows[] = {
#define OPTION(name, type, initial, minimum, maximum, unit, sentence) \
    {#name, unit, sentence, offsetof(struct options, name), TYPE_##type, minimum, maximum},
#include "settings/options.def"
#undef OPTION
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0], WORD_MAX = 64, PATH_SIZE_MAX = 1024 };

static char text_value[PATH_SIZE_MAX]; /* the copy of the one TEXT option's value */

static void complain(const char *problem, const char *name, size_t length, const char *hint) {
    char buffer[320];
    char word[WORD_MAX + 1] = {0};
    memcpy(word, name, bits_min(length, WORD_MAX));
    struct print out = print_to(buffer, sizeof buffer);
    print_text(&out, "primalloc: ");
    print_text(&out, problem);
    print_text(&out, " '");
    print_text(&out, word);
    print_text(&out, "'");
    print_text(&out, hint);
    print_text(&out, "\n");
    process_write_error(buffer, out.length);
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool same_word(const char *text, size_t length, const char *word) {
    size_t i = 0;
    while (i < length && word[i] && lower(text[i]) == word[i]) {
        i++;
    }
    return i == length && word[i] == '\0';
}

static const struct option_row *row_named(const char *name, size_t length) {
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (same_word(name, length, rows[i].name)) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Edit distance between a typed word and a name, both short: for the nearest match. */
static unsigned distance(const char *text, size_t length, const char *name) {
    unsigned row[sizeof rows[0].name + 1];
    size_t width = strlen(name);
    for (size_t j = 0; j <= width; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned diagonal = row[0]++;
        for (size_t j = 0; j < width; j++) {
            unsigned replaced = diagonal + (lower(text[i]) != name[j]);
            diagonal = row[j + 1];
            row[j + 1] = (unsigned)bits_min(replaced, bits_min(row[j], diagonal) + 1);
        }
    }
    return row[width];
}

static void complain_unknown(const char *name, size_t length) {
    char hint[96];
    struct print out = print_to(hint, sizeof hint - 1);
    const struct option_row *nearest = &rows[0];
    for (size_t i = 1; i < ROW_COUNT; i++) {
        if (distance(name, length, rows[i].name) < distance(name, length, nearest->name)) {
            nearest = &rows[i];
        }
    }
    print_text(&out, ": did you mean '");
    print_text(&out, nearest->name);
    print_text(&out, "'? PRIMALLOC_OPTIONS=help lists them all");
    hint[out.length] = '\0';
    complain("unknown option", name, length, hint);
}

/* Reads a number with its unit: K, M, G (binary) for bytes, ms and s for time. */
static bool parse_number(const char *text, size_t length, enum option_type type, uint64_t *value) {
    size_t i = 0;
    uint64_t number = 0;
    for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
        if (number > (UINT64_MAX - 9) / 10) {
            return false;
        }
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    const char *suffix = text + i;
    size_t rest = length - i;
    uint64_t factor = 0;
    if (i == 0) {
        return false;
    }
    if (rest == 0 || (type == TYPE_TIME_MS && same_word(suffix, rest, "ms"))) {
        factor = 1;
    } else if (type == TYPE_TIME_MS && same_word(suffix, rest, "s")) {
        factor = 1000;
    } else if (type != TYPE_TIME_MS) {
        static const char units[] = "kmg";
        const char *unit = rest <= 3 ? strchr(units, lower(suffix[0])) : NULL;
        bool ends = rest == 1 || same_word(suffix + 1, rest - 1, "b") ||
                    same_word(suffix + 1, rest - 1, "ib");
        factor = unit && *unit && ends ? (uint64_t)1 << (10 * (unit - units + 1)) : 0;
    }
    return factor && !__builtin_mul_overflow(number, factor, value);
}

static bool parse_word(const struct option_row *row, const char *text, size_t length,
                       uint64_t *value) {
    if (row->type == TYPE_BOOL) {
        if (same_word(text, length, "1") || same_word(text, length, "on") ||
            same_word(text, length, "yes") || same_word(text, length, "true")) {
            *value = 1;
            return true;
        }
        *value = 0;
        return same_word(text, length, "0") || same_word(text, length, "off") ||
               same_word(text, length, "no") || same_word(text, length, "false");
    }
    uint64_t index = 0;
    for (const char *word = row->unit; *word; index++) { /* CHOICE: words joined by '|' */
        size_t size = strcspn(word, "|");
        if (size == length && strncmp(word, text, length) == 0) {
            *value = index;
            return true;
        }
        word += size + (word[size] == '|');
    }
    return false;
}

static void set_option(const struct option_row *row, const char *text, size_t length) {
    void *target = (char *)&options + row->offset;
    if (row->type == TYPE_TEXT) {
        size_t size = bits_min(length, PATH_SIZE_MAX - 1);
        memcpy(text_value, text, size);
        text_value[size] = '\0';
        *(const char **)target = text_value;
        return;
    }
    uint64_t value = 0;
    if (row->type == TYPE_AUTO_SIZE && same_word(text, length, "auto")) {
        *(uint64_t *)target = OPTION_AUTO;
        return;
    }
    bool is_word = row->type == TYPE_BOOL || row->type == TYPE_CHOICE;
    bool parsed = is_word ? parse_word(row, text, length, &value)
                          : parse_number(text, length, (enum option_type)row->type, &value);
    if (!parsed || value < row->minimum || value > row->maximum) {
        char hint[96];
        struct print out = print_to(hint, sizeof hint - 1);
        print_text(&out, " for option '");
        print_text(&out, row->name);
        if (row->type == TYPE_CHOICE) {
            print_text(&out, "', which is one of ");
            print_text(&out, row->unit);
        } else {
            print_text(&out, "', which takes ");
            print_decimal(&out, row->minimum);
            print_text(&out, " to ");
            print_decimal(&out, row->maximum);
        }
        hint[out.length] = '\0';
        complain("ignoring value", text, length, hint);
        return;
    }
    *(uint64_t *)target = value;
}

static void print_help(void) {
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char buffer[256];
        struct print out = print_to(buffer, sizeof buffer);
        print_text(&out, "  ");
        print_text(&out, rows[i].name);
        while (out.length < 18) {
            print_text(&out, " ");
        }
        print_text(&out, rows[i].unit);
        while (out.length < 32) {
            print_text(&out, " ");
        }
        print_text(&out, rows[i].sentence);
        print_text(&out, "\n");
        process_write_error(buffer, out.length);
    }
}

/* PRIMALLOC_OPTIONS=name=value,name=value,help */
static void read_list(const char *list) {
    while (*list) {
        size_t length = strcspn(list, ",");
        size_t name_length = bits_min(strcspn(list, "="), length);
        const struct option_row *row = row_named(list, name_length);
        if (row) {
            bool has_value = name_length < length;
            set_option(row, has_value ? list + name_length + 1 : "1",
                       has_value ? length - name_length - 1 : 1);
        } else if (same_word(list, length, "help")) {
            print_help();
        } else if (length) {
            complain_unknown(list, name_length);
        }
        list += length + (list[length] == ',');
    }
}

void options_read(char **environment) {
    static const char prefix[] = "PRIMALLOC_";
    /* Variables that address the tool or the launcher, not the library. */
    static const char foreign[][16] = {"handshake", "library"};
    for (char **entry = environment; entry && *entry; entry++) {
        if (strncmp(*entry, prefix, sizeof prefix - 1) != 0) {
            continue;
        }
        const char *name = *entry + sizeof prefix - 1;
        size_t length = strcspn(name, "=");
        const char *value = name + length + (name[length] == '=');
        const struct option_row *row = row_named(name, length);
        if (same_word(name, length, "options")) {
            read_list(value);
        } else if (row) {
            set_option(row, value, strlen(value));
        } else if (!same_word(name, length, foreign[0]) && !same_word(name, length, foreign[1])) {
            complain_unknown(name, length);
        }
    }
}
