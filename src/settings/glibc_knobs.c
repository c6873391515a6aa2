/* glibc_knobs.c - see glibc_knobs.h. */
#include "settings/glibc_knobs.h"

#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "settings/option_report.h"
#include "settings/option_value.h"

enum knob_type { TYPE_SIZE_T, TYPE_INT_32 };

enum knob_action { ACTION_SETS, ACTION_HUGETLB, ACTION_CHECK, ACTION_NOTHING };

/* All texts in one piece, as in option_table.c. */
struct knob_texts {
#define KNOB(name, environment, parameter, number, type, minimum, maximum, action, option, \
             sentence)                                                                     \
    char name[sizeof #name + sizeof environment];
#include "settings/glibc_knobs.def"
#undef KNOB
};

static const struct knob_texts knob_texts = {
#define KNOB(name, environment, parameter, number, type, minimum, maximum, action, option, \
             sentence)                                                                     \
    .name = #name "\0" environment,
#include "settings/glibc_knobs.def"
#undef KNOB
};

struct knob {
    uint64_t maximum;
    uint16_t texts;     /* where the name lies; the environment's follows it, each terminated */
    int8_t parameter;   /* mallopt's; 0: none */
    uint8_t type : 4;   /* enum knob_type */
    uint8_t action : 4; /* enum knob_action */
    uint8_t option;     /* enum option_index */
    uint8_t minimum;
};

static const struct knob knobs[] = {
#define KNOB(name, environment, parameter, number, type, minimum, maximum, action, option, \
             sentence)                                                                     \
    {maximum,         offsetof(struct knob_texts, name),                                   \
     number,          TYPE_##type,                                                         \
     ACTION_##action, OPTION_INDEX_##option,                                               \
     minimum},
#include "settings/glibc_knobs.def"
#undef KNOB
};

static const char *name_of(const struct knob *knob) {
    return (const char *)&knob_texts + knob->texts;
}

/* "" where there is none. */
static const char *variable_of(const struct knob *knob) {
    return text_at(name_of(knob), 1);
}

static const char tunable_prefix[] = "glibc.malloc.";

static void set(const struct knob *knob, uint64_t value, enum option_source source) {
    const struct option_row *row = &option_rows[knob->option];
    switch ((enum knob_action)knob->action) {
    case ACTION_SETS:
        option_set(row, bits_min(value, row->maximum), source);
        break;
    case ACTION_HUGETLB:
        if (value == 1) {
            option_set(row, THP_ALWAYS, source);
        } else if (value) {
            option_set(&option_rows[OPTION_INDEX_large_os_pages], 1, source);
        }
        break;
    case ACTION_CHECK: /* bit 0: tell, bit 1: abort */
        if (source != SOURCE_MALLOPT || option_now(check)) {
            option_set(row, (value & 3) + 1, source);
        }
        break;
    case ACTION_NOTHING:
        break;
    }
}

static unsigned digit_value(char c) {
    if (c >= '0' && c <= '9') {
        return (unsigned)(c - '0');
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

/* A number as glibc's start-up code reads it, at its greatest when there are too many digits. */
static bool parse(const char *text, size_t length, uint64_t *value) {
    const char *end = text + length;
    while (text < end && (*text == ' ' || *text == '\t')) {
        text++;
    }
    bool is_negative = text < end && *text == '-';
    text += text < end && (*text == '-' || *text == '+');
    unsigned base = 10;
    if (end - text > 1 && *text == '0') {
        bool is_hexadecimal = (text[1] | 0x20) == 'x';
        base = is_hexadecimal ? 16 : 8;
        text += is_hexadecimal ? 2 : 0;
    }
    const char *start = text;
    uint64_t number = 0;
    for (; text < end && digit_value(*text) < base; text++) {
        if (__builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, digit_value(*text), &number)) {
            number = UINT64_MAX;
        }
    }
    if (text == start) {
        return false;
    }
    uint64_t factor = text < end ? size_unit(text, (size_t)(end - text)) : 1;
    if (factor == 0 || __builtin_mul_overflow(number, factor, &number)) {
        return false;
    }
    *value = is_negative ? 0 - number : number;
    return true;
}

static void read_value(const struct knob *knob, const char *text, size_t length,
                       enum option_source source) {
    uint64_t value;
    if (parse(text, length, &value) && value >= knob->minimum && value <= knob->maximum) {
        set(knob, value, source);
    } else if (options.verbose) {
        bool is_tunable = source == SOURCE_GLIBC_TUNABLES;
        report_wrong_knob(is_tunable ? tunable_prefix : "",
                          is_tunable ? name_of(knob) : variable_of(knob), text, length);
    }
}

/* What stands behind "NAME=" if that is how the text begins, else NULL. */
static const char *value_in(const char *text, const char *name) {
    const char *behind = *name ? text_behind(text, name) : NULL;
    return behind && *behind == '=' ? behind + 1 : NULL;
}

/* GLIBC_TUNABLES=glibc.malloc.name=value:glibc.other.name=value */
static void read_tunables(const char *list) {
    while (*list) {
        const char *end = list + strcspn(list, ":");
        const char *name = text_behind(list, tunable_prefix);
        for (size_t i = 0; name && i < GLIBC_KNOB_COUNT; i++) {
            const char *value = value_in(name, name_of(&knobs[i]));
            if (value) {
                read_value(&knobs[i], value, (size_t)(end - value), SOURCE_GLIBC_TUNABLES);
            }
        }
        list = end + (*end == ':');
    }
}

void glibc_knobs_note(struct glibc_settings *settings, const char *variable) {
    const char *tunables = variable[0] == 'G' ? value_in(variable, "GLIBC_TUNABLES") : NULL;
    if (tunables) {
        settings->tunables = tunables;
    }
    for (size_t i = 0; variable[0] == 'M' && i < GLIBC_KNOB_COUNT; i++) {
        const char *value = value_in(variable, variable_of(&knobs[i]));
        if (value) {
            settings->values[i] = value;
        }
    }
}

void glibc_knobs_apply(const struct glibc_settings *settings) {
    for (size_t i = 0; i < GLIBC_KNOB_COUNT; i++) {
        const char *value = settings->values[i];
        if (value) {
            read_value(&knobs[i], value, strlen(value), SOURCE_GLIBC_VARIABLE);
        }
    }
    if (settings->tunables) {
        read_tunables(settings->tunables);
    }
}

const char *glibc_knobs_variable(unsigned option_index) {
    for (size_t i = 0; i < GLIBC_KNOB_COUNT; i++) {
        if (knobs[i].option == option_index) {
            return variable_of(&knobs[i]);
        }
    }
    return "";
}

bool glibc_knobs_mallopt(int parameter, int value) {
    const struct knob *knob = NULL;
    for (size_t i = 0; parameter && i < GLIBC_KNOB_COUNT; i++) {
        knob = knobs[i].parameter == parameter ? &knobs[i] : knob;
    }
    if (!knob) {
        return false;
    }
    bool wraps = knob->type == TYPE_SIZE_T && knob->minimum == 0; /* an arena_max does not */
    uint64_t wide = wraps || value > 0 ? (uint64_t)value : 0;
    if (knob->option == OPTION_INDEX_perturb) {
        wide = (uint8_t)value; /* all of the number counts in glibc, but only this of it is used */
    }
    if (wide < knob->minimum || wide > knob->maximum) {
        return wide < knob->minimum; /* as glibc: it ignores an arena_max of 0 without a word */
    }
    set(knob, wide, SOURCE_MALLOPT);
    if (option_now(verbose) && knob->action == ACTION_SETS) {
        report_change(&option_rows[knob->option]);
    }
    return true;
}
