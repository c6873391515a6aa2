/* life.c - the library's part in the life of a process: start, fork and exit. */
#include <stdlib.h>
#include <string.h>

#include "api/fork.h"
#include "api/watched.h"
#include "base/print.h"
#include "objects/heap.h"
#include "os/loader.h"
#include "os/process.h"
#include "primalloc.h"
#include "settings/option_report.h"

/* only_exe: takes this library out of LD_PRELOAD, in place, so that children start without it. */
static PRIM_COLD void leave_preload(char *list) {
    char *kept = list;
    for (char *entry = list; *entry;) {
        size_t length = strcspn(entry, ": ");
        size_t name = length;
        while (name && entry[name - 1] != '/') {
            name--;
        }
        const char *ours = strstr(entry + name, "libprimalloc");
        bool is_ours = ours && ours < entry + length;
        char *next = entry + length + (entry[length] != '\0');
        if (!is_ours && length) {
            kept += kept > list ? (*kept = ':', 1) : 0;
            memmove(kept, entry, length);
            kept += length;
        }
        entry = next;
    }
    *kept = '\0';
}

static void answer_launcher(void) {
    static const char variable[] = "PRIMALLOC_HANDSHAKE";
    const char *request = getenv(variable);
    if (request) {
        char line[64];
        struct print out = print_to(line, sizeof line);
        print_format(&out, "primalloc " PRIM_VERSION_STRING " %u\n", process_id());
        process_answer_handshake(request, line, out.length);
        process_forget_variable(variable);
    }
}

PRIM_INLINE void greet(void) {
    char line[512]; /* names of files have up to 255 bytes */
    struct print out = print_to(line, sizeof line);
    print_format(&out, "primalloc " PRIM_VERSION_STRING " serves process %u (%s)\n", process_id(),
                 process_program_name());
    process_write_error(line, out.length);
}

PRIM_EXPORT const char *prim_version(void) {
    return PRIM_VERSION_STRING;
}

PRIM_EXPORT void prim_init(void) {
    heap_ensure();
}

/* Early, but after libc: other libraries' constructors already allocate from a ready heap. */
__attribute__((constructor(101))) static void start(void) {
    heap_ensure();
    process_note_error_output(); /* another file may have its number later */
    loader_note_libraries();
    fork_register();
    if (!heap_read_options()) {
        return; /* a set-user-ID program: its environment is not to be trusted */
    }
    answer_launcher();
    char *preload = options.only_exe ? getenv("LD_PRELOAD") : NULL;
    if (preload) {
        leave_preload(preload);
    }
    watched_start();
    if (option_now(verbose)) {
        greet();
        report_settings();
    }
}

__attribute__((destructor(101))) static void finish(void) {
    watched_finish();
}
