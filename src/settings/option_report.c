/* option_report.c - see option_report.h. */
#include "settings/option_report.h"

#include <string.h>

#include "base/bits.h"
#include "os/process.h"
#include "settings/glibc_knobs.h"
#include "settings/option_value.h"

enum { LINE_SIZE = 320, WORD_MAX = 64, COLUMN_VALUE = 18, COLUMN_RANGE = 29, COLUMN_SENTENCE = 64 };

/* A line that is written in one piece. */
struct line {
    struct print out;
    char text[LINE_SIZE];
};

static void line_begin(struct line *line, const char *start) {
    line->out = print_to(line->text, sizeof line->text - 1); /* room for the line's end */
    print_text(&line->out, start);
}

static void line_quote(struct line *line, const char *text, size_t length) {
    print_text(&line->out, "'");
    print_bytes(&line->out, text, bits_min(length, WORD_MAX));
    print_text(&line->out, "'");
}

static void line_end(struct line *line) {
    line->text[line->out.length] = '\n';
    process_write_error(line->text, line->out.length + 1);
}

void report_unknown_option(const char *name, size_t length) {
    struct line line;
    line_begin(&line, "primalloc: unknown option ");
    line_quote(&line, name, length);
    const struct option_row *nearest = option_row_nearest(name, length);
    print_text(&line.out, ":");
    if (nearest) {
        print_format(&line.out, " did you mean '%s'?", option_name(nearest));
    }
    print_text(&line.out, " PRIMALLOC_OPTIONS=help lists them all: primalloc run -o help -- true");
    line_end(&line);
}

void report_wrong_value(const struct option_row *row, const char *value, size_t length) {
    struct line line;
    line_begin(&line, "primalloc: ignoring value ");
    line_quote(&line, value, length);
    print_format(&line.out, " for option '%s', which takes ", option_name(row));
    option_print_range(&line.out, row);
    line_end(&line);
}

void report_wrong_knob(const char *prefix, const char *name, const char *value, size_t length) {
    struct line line;
    line_begin(&line, "primalloc: ignoring value ");
    line_quote(&line, value, length);
    print_format(&line.out, " of %s%s, as glibc does", prefix, name);
    line_end(&line);
}

void report_change(const struct option_row *row) {
    struct line line;
    line_begin(&line, "primalloc: mallopt sets ");
    print_format(&line.out, "%s to ", option_name(row));
    option_print_value(&line.out, row, option_value(row));
    line_end(&line);
}

/* A row of a table, up to its third column. */
static void line_begin_row(struct line *line, const struct option_row *row, uint64_t value) {
    line_begin(line, "  ");
    print_text(&line->out, option_name(row));
    print_padding(&line->out, COLUMN_VALUE);
    option_print_value(&line->out, row, value);
    print_padding(&line->out, COLUMN_RANGE);
}

static void report_text(const char *text) {
    process_write_error(text, strlen(text));
}

void report_help(void) {
    report_text("Set PRIMALLOC_NAME=value, or PRIMALLOC_OPTIONS=name=value,name=value\n\n"
                "  option          default    takes                              what it does\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        struct line line;
        line_begin_row(&line, row, row->initial);
        option_print_range(&line.out, row);
        print_padding(&line.out, COLUMN_SENTENCE);
        print_text(&line.out, option_sentence(row));
        line_end(&line);
    }
    report_text("\nSizes take K, M, G or T; times take ms, s or min. GLIBC_TUNABLES, mallopt, "
                "MALLOC_ARENA_MAX and so on work.\n"
                "PRIMALLOC_VERBOSE=1 shows what is set, and where.\n");
}

static void print_variable(struct print *out, const char *option) {
    print_text(out, "PRIMALLOC_");
    for (; *option; option++) {
        bool is_letter = *option >= 'a' && *option <= 'z';
        print_bytes(out, &(char){(char)(is_letter ? *option - 'a' + 'A' : *option)}, 1);
    }
}

static void print_source(struct print *out, const struct option_row *row) {
    switch (option_source(row)) {
    case SOURCE_DEFAULT:
        print_text(out, "default");
        break;
    case SOURCE_GLIBC_VARIABLE:
        print_text(out, glibc_knobs_variable(row->index));
        break;
    case SOURCE_GLIBC_TUNABLES:
        print_text(out, "GLIBC_TUNABLES");
        break;
    case SOURCE_LIST:
        print_text(out, "PRIMALLOC_OPTIONS");
        break;
    case SOURCE_VARIABLE:
        print_variable(out, option_name(row));
        break;
    case SOURCE_MALLOPT:
        print_text(out, "mallopt");
        break;
    case SOURCE_PROGRAM:
        print_text(out, "prim_option_set");
        break;
    }
}

void report_settings(void) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        struct line line;
        line_begin_row(&line, row, option_value(row));
        print_source(&line.out, row);
        line_end(&line);
    }
}
