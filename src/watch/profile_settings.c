/* profile_settings.c - see profile_settings.h. */
#include "watch/profile_settings.h"

#include <signal.h>
#include <string.h>

#include "settings/option_value.h"

enum {
    SIGNALS_MAX = 64,
    NUMBER_DIGITS = 13, /* of so many seconds the microseconds fit in a word */
    PERCENT_PLACES = 4,
    SHARE_WHOLE = 1000000,
    BUDGET_BY_RATE = SHARE_WHOLE + 1
};

struct signal_name {
    char name[7];
    uint8_t number;
};

/* Those that a program may have to spare. */
static const struct signal_name signal_names[] = {
    {"usr1", SIGUSR1}, {"usr2", SIGUSR2},   {"hup", SIGHUP}, {"quit", SIGQUIT},
    {"urg", SIGURG},   {"winch", SIGWINCH}, {"io", SIGIO},   {"prof", SIGPROF},
};

/* A number with a unit of bytes, if it may have one. */
static bool read_number(const char *text, size_t length, bool has_unit, uint64_t *number) {
    uint64_t value = 0;
    size_t i = 0;
    for (; i < length && i < NUMBER_DIGITS && text[i] >= '0' && text[i] <= '9'; i++) {
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    uint64_t factor = i == length ? 1 : has_unit ? size_unit(text + i, length - i) : 0;
    return i > 0 && factor && !__builtin_mul_overflow(value, factor, number) && *number > 0;
}

/* "2", "0.05": in millionths of the whole. */
static bool read_percent(const char *text, size_t length, unsigned *share) {
    uint64_t value = 0;
    unsigned digits = 0;
    unsigned places = 0; /* behind the point, and 1 once there is one */
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && !places) {
            places = 1;
        } else if (text[i] >= '0' && text[i] <= '9' && digits < 9 && places <= PERCENT_PLACES) {
            value = value * 10 + (uint64_t)(text[i] - '0');
            digits++;
            places += places > 0;
        } else {
            return false;
        }
    }
    for (places = places ? places : 1; places <= PERCENT_PLACES; places++) {
        value *= 10;
    }
    *share = (unsigned)value;
    return digits > 0 && value <= SHARE_WHOLE;
}

static bool read_signal(const char *text, size_t length, int *number) {
    uint64_t value;
    if (read_number(text, length, false, &value)) {
        *number = (int)value;
        bool is_of_libc = value == 32 || value == 33;
        return value <= SIGNALS_MAX && value != SIGKILL && value != SIGSTOP && !is_of_libc;
    }
    if (length > 3 && word_is(text, 3, "sig")) {
        text += 3;
        length -= 3;
    }
    for (size_t i = 0; i < sizeof signal_names / sizeof signal_names[0]; i++) {
        if (word_is(text, length, signal_names[i].name)) {
            *number = signal_names[i].number;
            return true;
        }
    }
    return false;
}

static bool read_part(struct profile_settings *settings, const char *part, size_t length) {
    const char *equals = memchr(part, '=', length);
    size_t name = equals ? (size_t)(equals - part) : length;
    const char *value = equals ? equals + 1 : part + length;
    size_t value_length = (size_t)(part + length - value);
    if (word_is(part, name, "rate")) {
        return read_number(value, value_length, true, &settings->rate);
    }
    if (word_is(part, name, "budget")) {
        return read_percent(value, value_length, &settings->budget);
    }
    if (word_is(part, name, "bytes")) {
        return read_number(value, value_length, true, &settings->bytes);
    }
    if (word_is(part, name, "seconds")) {
        return read_number(value, value_length, false, &settings->seconds);
    }
    if (word_is(part, name, "signal")) {
        return read_signal(value, value_length, &settings->signal);
    }
    settings->peak = true;
    return word_is(part, length, "peak") || word_is(part, length, "peak=1");
}

PRIM_COLD bool profile_settings_read(struct profile_settings *settings, const char *text,
                                     const char **wrong) {
    size_t length = strcspn(text, ",");
    uint64_t value;
    *wrong = text;
    if (length >= PROFILE_PATH_SIZE || read_part(settings, text, length) ||
        word_is_switch(text, length, &value)) {
        return false; /* who begins with a setting, or switches it on, has forgotten the path */
    }
    *settings = (struct profile_settings){.budget = BUDGET_BY_RATE};
    memcpy(settings->path, text, length);
    while ((*wrong)[length] == ',') {
        *wrong += length + 1;
        length = strcspn(*wrong, ",");
        if (!read_part(settings, *wrong, length)) {
            return false;
        }
    }
    if (settings->budget == BUDGET_BY_RATE) { /* who asks for a rate gets it */
        settings->budget = settings->rate ? 0 : PROFILE_BUDGET_USUAL;
    }
    settings->rate = settings->rate ? settings->rate : PROFILE_RATE_USUAL;
    return true;
}
