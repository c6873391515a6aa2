/* complaint.c - see complaint.h. */
#include "objects/complaint.h"

#include <errno.h>

#include "base/atomics.h"
#include "base/print.h"
#include "objects/thread_cache.h"
#include "objects/watcher.h"
#include "os/process.h"
#include "settings/options.h"

static _Atomic(complaint_function *) told_function; /* (atomic: complaint) */
static _Atomic(void *) told_context;                /* (atomic: hint) published with the function */

void complaint_set_function(complaint_function *function, void *context) {
    store_relaxed(&told_context, context);
    store_release(&told_function, function); /* order pair: complaint */
}

static bool is_wanted(void) {
    return load_relaxed(&told_function) || option_now(show_errors);
}

/* The message has room for one more byte. */
static PRIM_COLD void complain(int error, struct print *message, _Atomic unsigned *line_count,
                               unsigned lines_max) {
    complaint_function *function = load_acquire(&told_function); /* order pair: complaint */
    if (function && thread_cache_exchange_mark(MARK_COMPLAINT, true)) {
        return; /* the function itself met with an error, as when it allocates */
    }
    if (function) {
        int saved_errno = errno;
        message->text[message->length] = '\0';
        function(error, message->text, load_relaxed(&told_context));
        errno = saved_errno;
        thread_cache_exchange_mark(MARK_COMPLAINT, false);
    } else if (add_relaxed(line_count, 1) < lines_max) {
        message->text[message->length] = '\n';
        process_write_error(message->text, message->length + 1);
    }
}

void complaint_memory(size_t size) {
    static _Atomic unsigned line_count; /* (atomic: counter) */
    if (is_wanted()) {
        char text[96];
        struct print out = print_to(text, sizeof text - 1);
        print_format(&out, "primalloc: no memory for a block of %lu bytes", size);
        complain(ENOMEM, &out, &line_count, COMPLAINT_LINES_MAX);
    }
}

static PRIM_COLD void complain_of(const char *call, const void *pointer, const char *what,
                                  _Atomic unsigned *line_count, unsigned lines_max) {
    char text[96];
    struct print out = print_to(text, sizeof text - 1);
    print_format(&out, "primalloc: %s of %#lx%s", call, (uintptr_t)pointer, what);
    complain(EINVAL, &out, line_count, lines_max);
}

void complaint_foreign(const char *call, const void *pointer) {
    static _Atomic unsigned line_count; /* (atomic: counter) */
    if (is_wanted()) {
        complain_of(call, pointer, ", which is not a block of ours", &line_count,
                    COMPLAINT_LINES_MAX);
    }
}

void complaint_double_free(const void *block) {
    static _Atomic unsigned line_count; /* (atomic: counter) */
    complain_of("free", block, ", which was free already; MALLOC_CHECK_=3 tells where", &line_count,
                1);
}
