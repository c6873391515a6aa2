/* leak_suppress.c - see leak_suppress.h. */
#include "watch/leak_suppress.h"

#include <string.h>

#include "base/print.h"
#include "base/text.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/symbol_file.h"
#include "os/text_file.h"
#include "watch/site.h"
#include "watch/stack.h"

enum { FILE_SIZE_MAX = 256 << 10, PATH_SIZE = 512 };

static bool is_end(char c) {
    return c == '\0' || c == '\n' || c == '\r';
}

/* From here on. */
static bool matches_here(const char *pattern, const char *text) {
    for (;; pattern++, text++) {
        if (is_end(*pattern)) {
            return true;
        }
        if (*pattern == '$' && is_end(pattern[1])) {
            return *text == '\0';
        }
        if (*pattern == '*') {
            return leak_pattern_matches(pattern + 1, text);
        }
        if (*text != *pattern) {
            return false;
        }
    }
}

bool leak_pattern_matches(const char *pattern, const char *text) {
    if (*pattern == '^') {
        return matches_here(pattern + 1, text);
    }
    while (!matches_here(pattern, text)) {
        if (*text++ == '\0') {
            return false;
        }
    }
    return true;
}

struct suppressions {
    const char *text;        /* of the file, terminated */
    struct live_table known; /* frames and sites by address; number: whether they match */
};

/* The pattern of a line, or NULL. */
static const char *pattern_in(const char *line) {
    const char *pattern = text_behind(line, "leak:");
    return pattern && !is_end(*pattern) ? pattern : NULL;
}

static const char *next_line(const char *line) {
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

static bool any_matches(const struct suppressions *suppressions, const char *text) {
    for (const char *line = suppressions->text; *line; line = next_line(line)) {
        const char *pattern = pattern_in(line);
        if (pattern && leak_pattern_matches(pattern, text)) {
            return true;
        }
    }
    return false;
}

/* Tells of the first line that suppresses nothing, and was meant to. */
static void complain(const char *text, const char *path) {
    unsigned number = 1;
    for (const char *line = text; *line; line = next_line(line), number++) {
        const char *start = line + strspn(line, " \t");
        if (!is_end(*start) && *start != '#' && !pattern_in(line)) {
            char place[PATH_SIZE];
            struct print out = print_to(place, sizeof place - 1);
            print_format(&out, "%s:%u", path, number);
            place[out.length] = '\0';
            process_complain("leak check: is no line \"leak:PATTERN\": ", place);
            return;
        }
    }
}

static bool frame_matches(struct suppressions *suppressions, uint64_t frame) {
    const struct live_block *known = live_table_find(&suppressions->known, (uintptr_t)frame);
    if (known || !stack_frame_module(frame)) {
        return known && known->size;
    }
    const struct module *module = module_at(stack_frame_module(frame));
    struct symbol symbol;
    char path[PATH_SIZE];
    symbol_file_path(module, path, sizeof path);
    bool matches = any_matches(suppressions, path) ||
                   (symbol_find(module, stack_frame_address(frame) - 1, &symbol) &&
                    any_matches(suppressions, symbol.name));
    live_table_put_number(&suppressions->known, (uintptr_t)frame, matches);
    return matches;
}

static bool site_matches(struct suppressions *suppressions, const struct site *site) {
    const struct live_block *known = live_table_find(&suppressions->known, (uintptr_t)site);
    if (known) {
        return known->size;
    }
    bool matches = false;
    for (unsigned i = 0; i < site->frame_count && !matches; i++) {
        matches = frame_matches(suppressions, site->frames[i]);
    }
    live_table_put_number(&suppressions->known, (uintptr_t)site, matches);
    return matches;
}

/* The file's text, terminated, for memory_unmap. NULL was told, unless memory is out. A part of the
 * file is no use: its last pattern would match too much. */
static PRIM_COLD char *read_rules(const char *path) {
    struct text_file file;
    if (!text_file_open(&file, path)) {
        process_complain("leak check: cannot read ", path);
        return NULL;
    }
    char *text = memory_map(FILE_SIZE_MAX);
    size_t length = 0;
    int byte = 0;
    while (text && length < FILE_SIZE_MAX && (byte = text_file_byte(&file)) != TEXT_FILE_END) {
        text[length++] = (char)byte;
    }
    text_file_close(&file);
    if (text && byte != TEXT_FILE_END) {
        process_complain("leak check: not below 256 KiB: ", path);
        memory_unmap(text, FILE_SIZE_MAX);
        return NULL;
    }
    return text;
}

PRIM_COLD void leak_suppress_by(struct leak_graph *graph, const char *text) {
    struct suppressions suppressions = {.text = text};
    for (size_t i = 0; i < graph->count; i++) {
        struct leak_block *block = &graph->blocks[i];
        if (block->state < LEAK_IGNORED && site_matches(&suppressions, block->site)) {
            leak_graph_follow_block(graph, block, LEAK_IGNORED);
        }
    }
    live_table_empty(&suppressions.known);
}

PRIM_COLD void leak_suppress(struct leak_graph *graph, const char *path) {
    char *text = read_rules(path);
    if (text) {
        complain(text, path);
        leak_suppress_by(graph, text);
        memory_unmap(text, FILE_SIZE_MAX);
    }
}
