/* cgroup.c - see cgroup.h.
 *
 * /proc/self/cgroup names the process's group in each hierarchy, /proc/self/mountinfo where a
 * hierarchy is mounted and which of its groups is the top there. In a namespace, after a move or
 * with a mount of somebody else's making the two may not fit together: then the group is looked
 * for by its whole path, and what is missing of that is left to the groups above it. */
#include "os/cgroup.h"

#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/memory.h"
#include "os/text_file.h"

enum {
    PATH_ROOM = 4096,      /* the kernel opens no longer path */
    NAME_ROOM = 64,        /* for the name of a file behind a path */
    LINE_ROOM = 48 * 1024, /* two paths, each byte written as four, and a page of mount options */
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
    bool is_complete;       /* no other group has anything to add */
    uint64_t hard;
    uint64_t soft;
    uint64_t processors;
    void (*read_level)(struct look *look, bool is_lowest);
    size_t path_length;               /* of path, without the name of a file */
    struct text_file lines;           /* of the file that is gone through */
    struct text_file limit;           /* the file that limits are read from */
    char group[PATH_ROOM];            /* as /proc/self/cgroup has it */
    char path[PATH_ROOM + NAME_ROOM]; /* of the directory being read */
    char room[LINE_ROOM];             /* for a line of either; who reads limits needs no mount's */
};

/* Ends the text at the first such byte and returns what is behind it; NULL if there is none. */
static char *cut(char *text, char byte) {
    char *end = text ? strchr(text, byte) : NULL;
    if (!end) {
        return NULL;
    }
    *end = '\0';
    return end + 1;
}

/* Whether the word is one of those that commas join in the list. */
static bool has_word(const char *list, const char *word) {
    while (list) {
        const char *behind = text_behind(list, word);
        if (behind && (*behind == '\0' || *behind == ',')) {
            return true;
        }
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    return false;
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
    return text_file_open_unasked(file, look->path);
}

/* Opens a file of the directory being read. */
static bool open_limit(struct look *look, const char *name) {
    memcpy(look->path + look->path_length, name, strlen(name) + 1);
    bool is_open = text_file_open_unasked(&look->limit, look->path);
    look->path[look->path_length] = '\0';
    look->was_found = look->was_found || is_open;
    return is_open;
}

static void lower(uint64_t *limit, uint64_t value) {
    if (value < *limit && value < LIMIT_MAX) {
        *limit = value;
    }
}

/* The first line of a file of the directory being read; NULL without one. */
static const char *read_limit_line(struct look *look, const char *name) {
    if (!open_limit(look, name)) {
        return NULL;
    }
    const char *line = text_file_line(&look->limit, look->room, LINE_ROOM);
    text_file_close(&look->limit);
    return line;
}

/* The number in such a file, or CGROUP_UNLIMITED: for "max" and "-1", too. */
static uint64_t read_limit(struct look *look, const char *name) {
    uint64_t value;
    const char *line = read_limit_line(look, name);
    return line && text_decimal(&line, &value) ? value : CGROUP_UNLIMITED;
}

/* Version 1 tells the least limit of this group and all above it, of those too that are not visible
 * in a container. */
static void lower_by_statistics(struct look *look) {
    if (!open_limit(look, "/memory.stat")) {
        return;
    }
    for (const char *line; (line = text_file_line(&look->limit, look->room, LINE_ROOM));) {
        uint64_t value;
        line = text_behind(line, "hierarchical_memory_limit ");
        if (line) {
            if (text_decimal(&line, &value)) {
                lower(&look->hard, value);
                look->is_complete = true;
            }
            break;
        }
    }
    text_file_close(&look->limit);
}

static void read_memory(struct look *look, bool is_lowest) {
    if (look->version == VERSION_2) {
        lower(&look->hard, read_limit(look, "/memory.max"));
        lower(&look->soft, read_limit(look, "/memory.high"));
        return;
    }
    if (is_lowest) {
        lower_by_statistics(look);
    }
    if (!look->is_complete) {
        lower(&look->hard, read_limit(look, "/memory.limit_in_bytes"));
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
    (void)is_lowest;
    if (look->version == VERSION_1) {
        quota = read_limit(look, "/cpu.cfs_quota_us");
        period = read_limit(look, "/cpu.cfs_period_us");
        lower_processors(look, quota, period);
    } else {
        const char *line = read_limit_line(look, "/cpu.max"); /* "max 100000", "150000 100000" */
        if (line && text_decimal(&line, &quota) && *line++ == ' ' && text_decimal(&line, &period)) {
            lower_processors(look, quota, period);
        }
    }
}

/* Finds the process's group: in the hierarchy of version 1 that has the controller, or else in the
 * one hierarchy of version 2. */
static void find_group(struct look *look) {
    if (!open_below_root(look, &look->lines, "/proc/self/cgroup")) {
        return;
    }
    char *line; /* "number:controllers:path" */
    while (look->version != VERSION_1 &&
           (line = text_file_line(&look->lines, look->room, LINE_ROOM))) {
        char *controllers = cut(line, ':');
        char *path = cut(controllers, ':');
        bool is_wanted = path && has_word(controllers, look->controller);
        bool is_unified = path && strcmp(line, "0") == 0 && controllers[0] == '\0';
        if (is_wanted || is_unified) {
            path_append(look->group, 0, PATH_ROOM, path);
            look->version = is_wanted ? VERSION_1 : VERSION_2;
        }
    }
    text_file_close(&look->lines);
}

/* Reads the limits of the group at path + below and of all groups above it, up to that at path. */
static void read_upwards(struct look *look, const char *below) {
    size_t top = look->path_length;
    bool is_lowest = true;
    look->path_length = path_append(look->path, top, PATH_ROOM, below);
    for (;;) {
        bool had_found = look->was_found;
        look->read_level(look, is_lowest);
        is_lowest = is_lowest && look->was_found == had_found;
        if (look->path_length <= top || look->is_complete) {
            break;
        }
        do {
            look->path_length--;
        } while (look->path_length > top && look->path[look->path_length] != '/');
        look->path[look->path_length] = '\0';
    }
}

static bool is_outside_namespace(const char *path) {
    const char *behind = text_behind(path, "/..");
    return behind && (*behind == '/' || *behind == '\0');
}

/* What remains of the group's path below the group at a mount's top; NULL if it is not below. A
 * top like "/../.." lies above the namespace, and so above the group, whose way down from there
 * nobody tells. */
static const char *group_below(const char *group, const char *top) {
    if (is_outside_namespace(top)) {
        return strspn(top, "/.") == strlen(top) ? "" : NULL;
    }
    const char *below = text_behind(group, strcmp(top, "/") == 0 ? "" : top);
    bool is_below = below && (*below == '/' || *below == '\0') && !is_outside_namespace(group);
    return !is_below ? NULL : strcmp(below, "/") == 0 ? "" : below;
}

/* What is behind the lone dash that ends the optional fields of a line of mountinfo, or NULL. */
static char *behind_dash(char *line) {
    for (char *dash = line; (dash = strchr(dash, '-')); dash++) {
        if (dash > line && dash[-1] == ' ' && dash[1] == ' ') {
            return dash + 2;
        }
    }
    return NULL;
}

/* Takes a line of mountinfo apart, "number parent device top point options [more] - type source
 * options", if it mounts the hierarchy in question: the point goes to path, the top is returned. */
static const char *read_mount(struct look *look, char *line) {
    char *type = behind_dash(line);
    char *source = cut(type, ' ');
    bool is_wanted = false;
    if (source && look->version == VERSION_2) {
        is_wanted = strcmp(type, "cgroup2") == 0;
    } else if (source && strcmp(type, "cgroup") == 0) {
        const char *options = cut(source, ' ');
        is_wanted = options && has_word(options, look->controller);
    }
    if (!is_wanted) {
        return NULL;
    }
    char *top = line;
    for (unsigned field = 0; field < 3; field++) {
        top = cut(top, ' ');
    }
    char *point = cut(top, ' ');
    if (!cut(point, ' ')) {
        return NULL;
    }
    decode(top);
    decode(point);
    size_t start = path_append(look->path, 0, PATH_ROOM, look->root);
    look->path_length = path_append(look->path, start, PATH_ROOM, point);
    return top;
}

/* Goes through the mounts: those that show the group or one above it, or else just any. */
static void read_mounts(struct look *look, bool any) {
    if (!open_below_root(look, &look->lines, "/proc/self/mountinfo")) {
        return;
    }
    char *line;
    while (!look->is_complete && (line = text_file_line(&look->lines, look->room, LINE_ROOM))) {
        const char *top = read_mount(look, line);
        const char *below = top ? group_below(look->group, top) : NULL;
        if (top && !below && any) { /* a path that leaves the mount must not be followed */
            below = is_outside_namespace(look->group) ? "" : look->group;
        }
        if (below) {
            bool shows_all = strcmp(top, "/") == 0;
            read_upwards(look, below);
            look->is_complete = look->is_complete || (shows_all && look->was_found);
        }
    }
    text_file_close(&look->lines);
}

static struct look *look_begin(void) {
    struct look *look = memory_map(sizeof *look);
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
    memory_unmap(look, sizeof *look);
}

struct cgroup_memory cgroup_memory_limits(const char *root) {
    struct cgroup_memory memory = {CGROUP_UNKNOWN, CGROUP_UNLIMITED};
    struct look *look = look_begin();
    if (look) {
        look_at(look, root, "memory", read_memory);
        memory.hard = look->was_found ? look->hard : CGROUP_UNKNOWN;
        memory.soft = look->soft;
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
