/* cgroup.c - see cgroup.h.
 *
 * /proc/self/cgroup names the process's group in each hierarchy, /proc/self/mountinfo where a
 * hierarchy is mounted and which of its groups is the top there. In a namespace, after a move or
 * with a mount of somebody else's making the two may not fit together: then the group is looked
 * for by its whole path, and what is missing of that is left to the groups above it. */
#include "os/cgroup.h"

#include <string.h>

#include "base/bits.h"
#include "os/memory.h"
#include "os/text_file.h"

enum {
    PATH_ROOM = 4096,      /* the kernel opens no longer path */
    NAME_ROOM = 64,        /* for the name of a file behind a path */
    WORD_ROOM = 512,       /* lists of controllers and of mount options */
    PROCESSORS_MAX = 4096, /* greater quotas are none */
};

/* Greater numbers mean "no limit": version 1 writes the greatest multiple of the page size. */
#define LIMIT_MAX ((uint64_t)1 << 60)

enum version { VERSION_NONE, VERSION_1, VERSION_2 };

/* One look at the files; too large for a small stack. */
struct look {
    const char *root;
    const char *controller; /* whose hierarchy is wanted */
    enum version version;   /* of the hierarchy that has the controller */
    bool was_found;         /* a file with a limit was there */
    uint64_t hard;
    uint64_t soft;
    uint64_t processors;
    void (*read_level)(struct look *look, bool is_lowest);
    struct text_file lines;           /* of the file that is gone through */
    struct text_file limit;           /* the file that one limit is read from */
    size_t path_length;               /* of path, without the name of a file */
    char group[PATH_ROOM];            /* as /proc/self/cgroup has it */
    char top[PATH_ROOM];              /* the group that a mount has at its top */
    char path[PATH_ROOM + NAME_ROOM]; /* of the directory being read */
    char word[WORD_ROOM];
};

static int skip_fields(struct text_file *file, unsigned count) {
    int byte = ' ';
    char nothing[1];
    while (count-- && byte == ' ') {
        byte = text_file_field(file, ' ', ' ', nothing, sizeof nothing);
    }
    return byte;
}

static int skip_line(struct text_file *file, int byte) {
    char nothing[1];
    return byte == '\n' || byte == TEXT_FILE_END
               ? byte
               : text_file_field(file, '\n', '\n', nothing, sizeof nothing);
}

/* Reads words joined by commas up to the byte `end`; tells whether the controller is one. */
static bool read_controllers(struct look *look, int end, int *behind) {
    bool found = false;
    do {
        *behind = text_file_field(&look->lines, ',', end, look->word, WORD_ROOM);
        found = found || strcmp(look->word, look->controller) == 0;
    } while (*behind == ',');
    return found;
}

/* Spaces and the like stand in mountinfo as backslash and three octal digits. */
static void decode(char *text) {
    char *out = text;
    for (; *text; text++) {
        if (*text == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' && text[2] <= '7' &&
            text[3] >= '0' && text[3] <= '7') {
            *out++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
            text += 3;
        } else {
            *out++ = *text;
        }
    }
    *out = '\0';
}

/* Appends to a path in a buffer of room bytes and returns the length. What does not fit is cut off:
 * there is no such group then, and those above it count. */
static size_t path_append(char *path, size_t length, size_t room, const char *text) {
    size_t size = bits_min(strlen(text), room - 1 - length);
    memcpy(path + length, text, size);
    path[length + size] = '\0';
    return length + size;
}

static bool open_below_root(struct look *look, struct text_file *file, const char *path) {
    size_t length = path_append(look->path, 0, PATH_ROOM, look->root);
    path_append(look->path, length, sizeof look->path, path);
    return text_file_open(file, look->path);
}

/* Opens a file of the directory being read. */
static bool open_limit(struct look *look, const char *name) {
    memcpy(look->path + look->path_length, name, strlen(name) + 1);
    bool is_open = text_file_open(&look->limit, look->path);
    look->path[look->path_length] = '\0';
    look->was_found = look->was_found || is_open;
    return is_open;
}

static void lower(uint64_t *limit, uint64_t value) {
    if (value < *limit && value < LIMIT_MAX) {
        *limit = value;
    }
}

/* The number in a file of the directory being read, or CGROUP_UNLIMITED. */
static uint64_t read_limit(struct look *look, const char *name) {
    uint64_t value;
    int behind;
    if (!open_limit(look, name)) {
        return CGROUP_UNLIMITED;
    }
    bool is_number = text_file_decimal(&look->limit, &value, &behind); /* not so: "max", "-1" */
    text_file_close(&look->limit);
    return is_number ? value : CGROUP_UNLIMITED;
}

/* Version 1 tells the least limit of all groups above as well, of those too that are not visible
 * in a container. */
static void lower_by_statistics(struct look *look) {
    int behind = '\n';
    if (!open_limit(look, "/memory.stat")) {
        return;
    }
    while (behind != TEXT_FILE_END) {
        behind = text_file_field(&look->limit, ' ', ' ', look->word, WORD_ROOM);
        if (behind == ' ' && strcmp(look->word, "hierarchical_memory_limit") == 0) {
            uint64_t value;
            if (text_file_decimal(&look->limit, &value, &behind)) {
                lower(&look->hard, value);
            }
            break;
        }
        behind = skip_line(&look->limit, behind);
    }
    text_file_close(&look->limit);
}

static void read_memory(struct look *look, bool is_lowest) {
    if (look->version == VERSION_2) {
        lower(&look->hard, read_limit(look, "/memory.max"));
        lower(&look->soft, read_limit(look, "/memory.high"));
        return;
    }
    lower(&look->hard, read_limit(look, "/memory.limit_in_bytes"));
    if (is_lowest) {
        lower_by_statistics(look);
    }
}

static void lower_processors(struct look *look, uint64_t quota, uint64_t period) {
    if (quota && period && quota < LIMIT_MAX && period < LIMIT_MAX) {
        lower(&look->processors, (quota + period - 1) / period);
    }
}

static void read_processors(struct look *look, bool is_lowest) {
    uint64_t quota;
    uint64_t period;
    int behind;
    (void)is_lowest;
    if (look->version == VERSION_1) {
        quota = read_limit(look, "/cpu.cfs_quota_us");
        period = read_limit(look, "/cpu.cfs_period_us");
        lower_processors(look, quota, period);
    } else if (open_limit(look, "/cpu.max")) { /* "max 100000" or "150000 100000" */
        if (text_file_decimal(&look->limit, &quota, &behind) && behind == ' ' &&
            text_file_decimal(&look->limit, &period, &behind)) {
            lower_processors(look, quota, period);
        }
        text_file_close(&look->limit);
    }
}

/* Finds the process's group: in the hierarchy of version 1 that has the controller, or else in the
 * one hierarchy of version 2. */
static void find_group(struct look *look) {
    if (!open_below_root(look, &look->lines, "/proc/self/cgroup")) {
        return;
    }
    int byte = '\n';
    while (byte != TEXT_FILE_END && look->version != VERSION_1) { /* "number:controllers:path" */
        bool is_wanted = false;
        bool is_unified = false;
        byte = text_file_field(&look->lines, ':', ':', look->word, WORD_ROOM);
        if (byte == ':') {
            bool is_zero = strcmp(look->word, "0") == 0;
            is_wanted = read_controllers(look, ':', &byte);
            is_unified = is_zero && look->word[0] == '\0';
        }
        if (byte == ':' && (is_wanted || is_unified)) {
            byte = text_file_field(&look->lines, '\n', '\n', look->group, PATH_ROOM);
            look->version = is_wanted ? VERSION_1 : VERSION_2;
        } else {
            byte = skip_line(&look->lines, byte);
        }
    }
    text_file_close(&look->lines);
}

/* Reads the limits of the group at path + below and of all groups above it down to path. */
static void read_upwards(struct look *look, const char *below) {
    size_t top = look->path_length;
    bool is_lowest = true;
    look->path_length = path_append(look->path, top, PATH_ROOM, below);
    for (;;) {
        bool had_found = look->was_found;
        look->read_level(look, is_lowest);
        is_lowest = is_lowest && look->was_found == had_found;
        if (look->path_length <= top) {
            break;
        }
        do {
            look->path_length--;
        } while (look->path_length > top && look->path[look->path_length] != '/');
        look->path[look->path_length] = '\0';
    }
}

static bool is_outside_namespace(const char *path) {
    return strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0');
}

/* What remains of the group's path below the group at a mount's top; NULL if it is not below. A
 * top like "/../.." lies above the namespace, and so above the group, whose way down from there
 * nobody tells. */
static const char *group_below(const char *group, const char *top) {
    if (is_outside_namespace(top)) {
        return strspn(top, "/.") == strlen(top) ? "" : NULL;
    }
    size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
    bool is_below = strncmp(group, top, length) == 0 &&
                    (group[length] == '/' || group[length] == '\0') && !is_outside_namespace(group);
    return !is_below ? NULL : strcmp(group + length, "/") == 0 ? "" : group + length;
}

/* Reads one line of mountinfo, "number parent device top point options [more] - type source
 * options", into top and path; tells whether that mounts the hierarchy in question. */
static bool read_mount(struct look *look, int *byte) {
    struct text_file *lines = &look->lines;
    size_t start = path_append(look->path, 0, PATH_ROOM, look->root);
    look->word[0] = '\0';
    *byte = skip_fields(lines, 3);
    if (*byte == ' ') {
        *byte = text_file_field(lines, ' ', ' ', look->top, PATH_ROOM);
    }
    if (*byte == ' ') {
        *byte = text_file_field(lines, ' ', ' ', look->path + start, PATH_ROOM - start);
    }
    while (*byte == ' ' && strcmp(look->word, "-") != 0) {
        *byte = text_file_field(lines, ' ', ' ', look->word, WORD_ROOM);
    }
    if (*byte == ' ') {
        *byte = text_file_field(lines, ' ', ' ', look->word, WORD_ROOM);
    }
    if (*byte != ' ') {
        return false;
    }
    decode(look->top);
    decode(look->path + start);
    look->path_length = strlen(look->path);
    if (look->version == VERSION_2) {
        return strcmp(look->word, "cgroup2") == 0;
    }
    bool is_version_1 = strcmp(look->word, "cgroup") == 0;
    *byte = skip_fields(lines, 1);
    return is_version_1 && *byte == ' ' && read_controllers(look, ' ', byte);
}

/* Goes through the mounts: those that show the group or one above it, or else just any. */
static void read_mounts(struct look *look, bool any) {
    if (!open_below_root(look, &look->lines, "/proc/self/mountinfo")) {
        return;
    }
    int byte = '\n';
    while (byte != TEXT_FILE_END) {
        if (read_mount(look, &byte)) {
            const char *below = group_below(look->group, look->top);
            if (!below && any) { /* a path that leaves the mount must not be followed */
                below = is_outside_namespace(look->group) ? "" : look->group;
            }
            if (below) {
                read_upwards(look, below);
            }
        }
        byte = skip_line(&look->lines, byte);
    }
    text_file_close(&look->lines);
}

static struct look *look_begin(void) {
    struct look *look = memory_map(bits_round_up(sizeof *look, memory_page_size()));
    if (look) {
        look->hard = look->soft = look->processors = CGROUP_UNLIMITED;
    }
    return look;
}

static void look_at(struct look *look, const char *root, const char *controller,
                    void (*read_level)(struct look *look, bool is_lowest)) {
    look->root = root;
    look->controller = controller;
    look->read_level = read_level;
    find_group(look);
    if (look->version != VERSION_NONE) {
        read_mounts(look, false);
        if (!look->was_found) {
            read_mounts(look, true);
        }
    }
}

static void look_end(struct look *look) {
    memory_unmap(look, bits_round_up(sizeof *look, memory_page_size()));
}

struct cgroup_memory cgroup_memory_limits(const char *root) {
    struct cgroup_memory memory = {CGROUP_UNLIMITED, CGROUP_UNLIMITED};
    struct look *look = look_begin();
    if (look) {
        look_at(look, root, "memory", read_memory);
        memory = (struct cgroup_memory){look->hard, look->soft};
        look_end(look);
    }
    return memory;
}

unsigned cgroup_processor_count(const char *root) {
    uint64_t count = CGROUP_UNLIMITED;
    struct look *look = look_begin();
    if (look) {
        look_at(look, root, "cpu", read_processors);
        count = look->processors;
        look_end(look);
    }
    return count < PROCESSORS_MAX ? (unsigned)count : 0;
}
