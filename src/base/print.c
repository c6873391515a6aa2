/* print.c - see print.h. */
#include "base/print.h"

#include <stdarg.h>

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

void print_format(struct print *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    for (; *format; format++) {
        if (*format != '%') {
            print_byte(out, *format);
        } else if (*++format == 's') {
            print_text(out, va_arg(arguments, const char *));
        } else if (*format == 'u') {
            print_decimal(out, va_arg(arguments, unsigned));
        } else if (*format == 'l') {
            format++;
            print_decimal(out, va_arg(arguments, uint64_t));
        } else {
            format += 2;
            print_hexadecimal(out, va_arg(arguments, uint64_t));
        }
    }
    va_end(arguments);
}

void print_byte_count(struct print *out, uint64_t count) {
    print_format(out, count == 1 ? "%lu byte" : "%lu bytes", count);
}

void print_place(struct print *out, uintptr_t address, uintptr_t start, uintptr_t end) {
    if (address < start) {
        print_byte_count(out, start - address);
        print_text(out, " before");
    } else if (address >= end) {
        print_byte_count(out, address - end + 1);
        print_text(out, " beyond the end of");
    } else {
        print_byte_count(out, address - start);
        print_text(out, " into");
    }
}
