/* print.c - see print.h. */
#include "base/print.h"

static void print_byte(struct print *out, char byte) {
    if (out->length < out->capacity) {
        out->text[out->length++] = byte;
    }
}

void print_text(struct print *out, const char *text) {
    for (; *text; text++) {
        print_byte(out, *text);
    }
}

void print_bytes(struct print *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        print_byte(out, text[i]);
    }
}

void print_padding(struct print *out, size_t column) {
    do {
        print_byte(out, ' ');
    } while (out->length < column && out->length < out->capacity);
}

static void print_number(struct print *out, uint64_t value, unsigned base) {
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    while (count) {
        print_byte(out, digits[--count]);
    }
}

void print_decimal(struct print *out, uint64_t value) {
    print_number(out, value, 10);
}

void print_hexadecimal(struct print *out, uint64_t value) {
    print_text(out, "0x");
    print_number(out, value, 16);
}
