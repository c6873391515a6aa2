/* options.c - see options.h: one pass over the environment. */
#include "settings/options.h"

#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "settings/glibc_knobs.h"
#include "settings/option_report.h"
#include "settings/option_value.h"

static const char name_alone[] = "on"; /* what an option in a list has without a value */

static void read_value(const struct option_row *row, const char *text, size_t length,
                       enum option_source source) {
    uint64_t value;
    bool is_text = row->type == TYPE_TEXT;
    bool is_missing = text == name_alone; /* a file of that name is no wish */
    if (is_text ? is_missing || length >= OPTION_TEXT_SIZE
                : !option_parse(row, text, length, &value)) {
        report_wrong_value(row, text, length);
    } else if (is_text) {
        option_set_text(row, text, length, source);
    } else {
        option_set(row, value, source);
    }
}

/* PRIMALLOC_OPTIONS=name=value,name=value,name,help */
static void read_list(const char *list) {
    while (*list) {
        size_t length = strcspn(list, ",");
        size_t name_length = bits_min(strcspn(list, "="), length);
        const struct option_row *row = option_row_named(list, name_length);
        if (row) {
            bool has_value = name_length < length;
            read_value(row, has_value ? list + name_length + 1 : name_alone,
                       has_value ? length - name_length - 1 : strlen(name_alone), SOURCE_LIST);
        } else if (word_is(list, length, "help")) {
            report_help();
        } else if (length) {
            report_unknown_option(list, name_length);
        }
        list += length + (list[length] == ',');
    }
}

/* PRIMALLOC_<NAME>=value, without the prefix. */
static void read_variable(const char *name) {
    /* Variables that address the tool or the launcher, not the library. */
    static const char foreign[][16] = {"handshake", "library"};
    size_t length = strcspn(name, "=");
    const char *value = name + length + (name[length] == '=');
    const struct option_row *row = option_row_named(name, length);
    if (word_is(name, length, "options")) {
        read_list(value);
    } else if (row) {
        read_value(row, value, strlen(value), SOURCE_VARIABLE);
    } else if (!word_is(name, length, foreign[0]) && !word_is(name, length, foreign[1])) {
        report_unknown_option(name, length);
    }
}

void options_read(char **environment) {
    struct glibc_settings glibc = {0};
    for (char **entry = environment; entry && *entry; entry++) {
        const char *name = text_behind(*entry, "PRIMALLOC_");
        if (name) {
            read_variable(name);
        } else {
            glibc_knobs_note(&glibc, *entry);
        }
    }
    glibc_knobs_apply(&glibc); /* now that it is known whether to be verbose */
}
