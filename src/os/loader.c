/* loader.c - see loader.h. */
#include "os/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "base/text.h"

struct range {
    uintptr_t start;
    uintptr_t end;
};

enum { RANGES_MAX = 8 };

static struct range ranges[RANGES_MAX]; /* (const once constructors ran) */
static unsigned range_count;            /* (const once constructors ran) */

/* By name, because a program may have functions of the same names: ld-linux-x86-64.so.2 or
 * ld64.so.1, libc.so.6 or, in old systems, ld-2.28.so, libc-2.28.so and libpthread-2.28.so. */
static bool is_noted(const char *path) {
    static const char prefixes[][12] = {"ld-",   "ld64.so",    "libc.so",
                                        "libc-", "libpthread", "libprimallo"};
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (text_behind(name, prefixes[i])) {
            return true;
        }
    }
    return false;
}

static int note_library(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    if (!info->dlpi_name || !is_noted(info->dlpi_name) || range_count == RANGES_MAX) {
        return 0;
    }
    struct range range = {UINTPTR_MAX, 0};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD) {
            range.start = start < range.start ? start : range.start;
            range.end = start + segment->p_memsz > range.end ? start + segment->p_memsz : range.end;
        }
    }
    ranges[range_count++] = range;
    return 0;
}

void loader_note_libraries(void) {
    range_count = 0;
    dl_iterate_phdr(note_library, NULL);
}

bool loader_knows_libraries(void) {
    return range_count >= 2;
}

bool loader_is_library_code(const void *address) {
    for (unsigned i = 0; i < range_count; i++) {
        if ((uintptr_t)address >= ranges[i].start && (uintptr_t)address < ranges[i].end) {
            return true;
        }
    }
    return false;
}

#ifdef __GLIBC__
#pragma weak dlvsym /* not in static programs */
#endif

void *loader_next(const char *name, const char *version) {
#ifdef __GLIBC__
    return dlvsym ? dlvsym(RTLD_NEXT, name, version) : NULL;
#else
    (void)name;
    (void)version;
    return NULL;
#endif
}
