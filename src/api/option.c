/* option.c - the program's way to the options, by the same table as the environment's; and which
 * functions of the program are called. */
#include <errno.h>
#include <string.h>

#include "objects/complaint.h"
#include "objects/deferred_free.h"
#include "objects/heap.h"
#include "os/process.h"
#include "primalloc.h"
#include "settings/option_value.h"

#define SAME(public, internal) \
    _Static_assert((int)(public) == (int)(internal), "primalloc.h names the internal numbers")
SAME(PRIM_OPTION_BOOL, TYPE_BOOL);
SAME(PRIM_OPTION_SIZE, TYPE_SIZE);
SAME(PRIM_OPTION_AUTO_SIZE, TYPE_AUTO_SIZE);
SAME(PRIM_OPTION_TIME_MS, TYPE_TIME_MS);
SAME(PRIM_OPTION_CHOICE, TYPE_CHOICE);
SAME(PRIM_OPTION_TEXT, TYPE_TEXT);
SAME(PRIM_OPTION_FROM_DEFAULT, SOURCE_DEFAULT);
SAME(PRIM_OPTION_FROM_GLIBC_VARIABLE, SOURCE_GLIBC_VARIABLE);
SAME(PRIM_OPTION_FROM_GLIBC_TUNABLES, SOURCE_GLIBC_TUNABLES);
SAME(PRIM_OPTION_FROM_LIST, SOURCE_LIST);
SAME(PRIM_OPTION_FROM_VARIABLE, SOURCE_VARIABLE);
SAME(PRIM_OPTION_FROM_MALLOPT, SOURCE_MALLOPT);
SAME(PRIM_OPTION_FROM_PROGRAM, SOURCE_PROGRAM);
_Static_assert(PRIM_OPTION_AUTO == OPTION_AUTO, "primalloc.h names the internal numbers");

static int fail(int error) {
    errno = error;
    return -1;
}

/* The row, with the environment read; NULL, with errno ENOENT, for a name that is none. */
static const struct option_row *row_named(const char *name) {
    heap_ensure();
    const struct option_row *row = option_row_named(name, strlen(name));
    if (!row) {
        errno = ENOENT;
    }
    return row;
}

PRIM_EXPORT int prim_option_get(const char *name, uint64_t *value) {
    const struct option_row *row = row_named(name);
    if (!row) {
        return -1;
    }
    if (row->type == TYPE_TEXT) {
        return fail(EINVAL);
    }
    *value = option_value(row);
    return 0;
}

PRIM_EXPORT int prim_option_get_text(const char *name, char *text, size_t size) {
    const struct option_row *row = row_named(name);
    if (!row) {
        return -1;
    }
    struct print out = print_to(text, size ? size - 1 : 0);
    option_print_value(&out, row, option_value(row));
    if (size) {
        text[out.length] = '\0';
    }
    return 0;
}

static int set(const struct option_row *row, uint64_t value) {
    bool is_final = option_now(confined) > value && row->index == OPTION_INDEX_confined;
    if (row->when != WHEN_ANY_TIME || is_final) {
        return fail(EPERM);
    }
    option_set(row, value, SOURCE_PROGRAM);
    heap_apply_options();
    return 0;
}

PRIM_EXPORT int prim_option_set(const char *name, uint64_t value) {
    const struct option_row *row = row_named(name);
    if (!row) {
        return -1;
    }
    return option_accepts(row, value) ? set(row, value) : fail(EINVAL);
}

PRIM_EXPORT int prim_option_set_text(const char *name, const char *text) {
    const struct option_row *row = row_named(name);
    uint64_t value = 0;
    if (!row) {
        return -1;
    }
    bool is_valid = row->type == TYPE_TEXT || option_parse(row, text, strlen(text), &value);
    return is_valid ? set(row, value) : fail(EINVAL);
}

PRIM_EXPORT size_t prim_option_list(prim_option_visit *visit, void *context) {
    heap_ensure();
    for (size_t i = 0; visit && i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        struct prim_option option = {
            .name = option_name(row),
            .unit = option_unit(row),
            .sentence = option_sentence(row),
            .type = (enum prim_option_type)row->type,
            .source = (enum prim_option_source)option_source(row),
            .can_change = row->when == WHEN_ANY_TIME,
            .value = row->type == TYPE_TEXT ? 0 : option_value(row),
            .initial = row->initial,
            .minimum = row->minimum,
            .maximum = row->maximum,
            .text = row->type == TYPE_TEXT ? (const char *)(uintptr_t)option_value(row) : NULL,
        };
        visit(&option, context);
    }
    return OPTION_COUNT;
}

PRIM_EXPORT void prim_output_set(prim_output *output, void *context) {
    process_set_output(output, context);
}

PRIM_EXPORT void prim_error_set(prim_error *error, void *context) {
    complaint_set_function(error, context);
}

PRIM_EXPORT void prim_deferred_free_set(prim_deferred_free *function, void *context) {
    deferred_free_set(function, context);
}
