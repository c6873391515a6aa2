/* text.c - see text.h. */
#include "base/text.h"

#include <string.h>

const char *text_behind(const char *text, const char *start) {
    while (*start && *text == *start) {
        text++;
        start++;
    }
    return *start ? NULL : text;
}

bool text_ends_with(const char *text, const char *end) {
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

const char *text_at(const char *texts, unsigned index) {
    while (index--) {
        texts += strlen(texts) + 1;
    }
    return texts;
}

PRIM_COLD size_t text_character(const char *text, size_t length) {
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80) {
        return 1;
    }
    size_t count = first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
    if (count == 0 || count > length) {
        return 0;
    }
    uint32_t value = first & 0x7f >> count;
    for (size_t i = 1; i < count; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        value = value << 6 | (text[i] & 0x3f);
    }
    uint32_t least = count == 2 ? 0x80 : count == 3 ? 0x800 : 0x10000; /* no longer than needed */
    bool is_surrogate = value >> 11 == 0xd800 >> 11;
    return value >= least && value <= 0x10ffff && !is_surrogate ? count : 0;
}
