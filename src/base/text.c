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
