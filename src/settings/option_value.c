/* option_value.c - see option_value.h. */
#include "settings/option_value.h"

#include <string.h>

#include "base/bits.h"

struct unit {
    uint64_t factor;
    char name[8];
};

static const struct unit size_units[] = {
    {(uint64_t)1 << 40, " TiB"}, {1 << 30, " GiB"}, {1 << 20, " MiB"}, {1 << 10, " KiB"}};
static const struct unit time_units[] = {{60000, " min"}, {1000, " s"}};

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool word_is(const char *text, size_t length, const char *word) {
    size_t i = 0;
    while (i < length && word[i] && lower(text[i]) == word[i]) {
        i++;
    }
    return i == length && word[i] == '\0';
}

uint64_t size_unit(const char *text, size_t length) {
    static const char letters[] = "kmgt";
    if (length == 0 || length > 3) {
        return 0;
    }
    const char *letter = memchr(letters, lower(text[0]), sizeof letters - 1);
    bool ends =
        length == 1 || word_is(text + 1, length - 1, "b") || word_is(text + 1, length - 1, "ib");
    return letter && ends ? (uint64_t)1 << (10 * (letter - letters + 1)) : 0;
}

static uint64_t time_unit(const char *text, size_t length) {
    if (word_is(text, length, "ms")) {
        return 1;
    }
    if (word_is(text, length, "s")) {
        return 1000;
    }
    return word_is(text, length, "min") ? 60000 : 0;
}

static bool parse_number(const struct option_row *row, const char *text, size_t length,
                         uint64_t *value) {
    size_t i = 0;
    uint64_t number = 0;
    for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
        if (number > (UINT64_MAX - 9) / 10) {
            return false;
        }
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    uint64_t factor = 1;
    if (i < length) {
        factor = row->type == TYPE_TIME_MS ? time_unit(text + i, length - i)
                                           : size_unit(text + i, length - i);
    }
    return i > 0 && factor > 0 && !__builtin_mul_overflow(number, factor, value);
}

bool word_is_switch(const char *text, size_t length, uint64_t *value) {
    *value = word_is(text, length, "1") || word_is(text, length, "on") ||
             word_is(text, length, "yes") || word_is(text, length, "true");
    return *value || word_is(text, length, "0") || word_is(text, length, "off") ||
           word_is(text, length, "no") || word_is(text, length, "false");
}

/* CHOICE: words joined by '|'. */
static bool parse_choice(const struct option_row *row, const char *text, size_t length,
                         uint64_t *value) {
    *value = 0;
    for (const char *word = option_unit(row); *word; ++*value) {
        size_t size = strcspn(word, "|");
        bool is_meant = size == length;
        for (size_t i = 0; is_meant && i < size; i++) {
            is_meant = lower(text[i]) == word[i];
        }
        if (is_meant) {
            return true;
        }
        word += size + (word[size] == '|');
    }
    return false;
}

bool option_parse(const struct option_row *row, const char *text, size_t length, uint64_t *value) {
    switch ((enum option_type)row->type) {
    case TYPE_BOOL:
        return word_is_switch(text, length, value);
    case TYPE_CHOICE:
        return parse_choice(row, text, length, value);
    case TYPE_TEXT:
        return false;
    case TYPE_AUTO_SIZE:
        if (word_is(text, length, "auto")) {
            *value = OPTION_AUTO;
            return true;
        }
        break;
    case TYPE_SIZE:
    case TYPE_TIME_MS:
        break;
    }
    return parse_number(row, text, length, value) && *value >= row->minimum &&
           *value <= row->maximum;
}

bool option_accepts(const struct option_row *row, uint64_t value) {
    if (row->type == TYPE_AUTO_SIZE && value == OPTION_AUTO) {
        return true;
    }
    return row->type != TYPE_TEXT && value >= row->minimum && value <= row->maximum;
}

static struct unit unit_for(const struct option_row *row, uint64_t value) {
    bool is_time = row->type == TYPE_TIME_MS;
    const struct unit *units = is_time ? time_units : size_units;
    size_t count = is_time ? sizeof time_units : sizeof size_units;
    bool has_units = is_time || strcmp(option_unit(row), "bytes") == 0;
    for (size_t i = 0; has_units && i < count / sizeof units[0]; i++) {
        if (value && value % units[i].factor == 0) {
            return units[i];
        }
    }
    struct unit own = {1, ""};
    size_t length = bits_min(strlen(option_unit(row)), sizeof own.name - 2);
    if (length) {
        own.name[0] = ' ';
        memcpy(own.name + 1, option_unit(row), length - (value == 1 && !is_time)); /* 1 byte */
    }
    return own;
}

static void print_choice(struct print *out, const char *words, uint64_t index) {
    for (; index; index--) {
        words += strcspn(words, "|") + 1;
    }
    print_bytes(out, words, strcspn(words, "|"));
}

void option_print_value(struct print *out, const struct option_row *row, uint64_t value) {
    if (row->type == TYPE_CHOICE) {
        print_choice(out, option_unit(row), value);
    } else if (row->type == TYPE_TEXT) {
        print_text(out, value ? (const char *)(uintptr_t)value : "not set");
    } else if (row->type == TYPE_AUTO_SIZE && value == OPTION_AUTO) {
        print_text(out, "auto");
    } else if (row->type == TYPE_BOOL) {
        print_decimal(out, value);
    } else {
        struct unit unit = unit_for(row, value);
        print_format(out, "%lu%s", value / unit.factor, unit.name);
    }
}

void option_print_range(struct print *out, const struct option_row *row) {
    if (row->type == TYPE_BOOL) {
        print_text(out, "0 or 1");
        return;
    }
    if (row->type == TYPE_TEXT) {
        print_text(out, "a ");
        print_text(out, option_unit(row));
        return;
    }
    if (row->type == TYPE_CHOICE) {
        for (uint64_t i = 0; i <= row->maximum; i++) {
            print_text(out, i == 0 ? "" : i < row->maximum ? ", " : " or ");
            print_choice(out, option_unit(row), i);
        }
        return;
    }
    struct unit low = unit_for(row, row->minimum);
    struct unit high = unit_for(row, row->maximum);
    print_format(out, "%s%lu%s to %lu%s", row->type == TYPE_AUTO_SIZE ? "auto, " : "",
                 row->minimum / low.factor,
                 row->minimum && strcmp(low.name, high.name) != 0 ? low.name : "",
                 row->maximum / high.factor, high.name);
}
