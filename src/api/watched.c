/* watched.c - see watched.h: the observers that the options ask for begin and end here. */
#include "api/watched.h"

#include <pthread.h>

#include "objects/watcher.h"
#include "os/process.h"
#include "primalloc.h"
#include "settings/options.h"
#include "watch/check.h"
#include "watch/guarded.h"
#include "watch/snapshot.h"

void watchers_begin(void) {
    check_begin();
}

void watched_start(void) {
    if (options.check) {
        check_prepare();
        pthread_atfork(check_fork_prepare, check_fork_parent, check_fork_child);
    }
    guarded_start();
}

const void *watched_place(const void *block) {
    return options.check ? check_place(block) : block;
}

void *watched_show(void *block, size_t size, size_t *shown_size) {
    *shown_size = size;
    if (options.check) {
        check_show(&block, shown_size);
    }
    return block;
}

void watched_end_heap(struct arena *arena) {
    if (options.check) {
        check_end_arena(arena);
    }
}

static void write_error_of(const char *path) {
    char line[1200];
    struct print out = print_to(line, sizeof line);
    print_format(&out, "primalloc: cannot write %s\n", path);
    process_write_error(line, out.length);
}

void watched_finish(void) {
    check_finish();
    if (options.stats_output) {
        char line[256];
        struct print out = print_to(line, sizeof line);
        snapshot_print_calls(&out);
        if (!process_append_to_file(options.stats_output, line, out.length)) {
            write_error_of(options.stats_output);
        }
    }
    if (option_now(show_stats)) {
        prim_stats_print();
    }
}
