/* profile_text.c - see profile_text.h; docs/profile-format.md describes the form. */
#include "watch/profile_text.h"

#include "base/print.h"
#include "os/memory.h"
#include "os/output_file.h"
#include "os/text_file.h"
#include "watch/stack.h"

enum { LINE_SIZE = 4096 };

struct writer {
    struct print line; /* into the text */
    struct output_file file;
    struct text_file maps;
    char text[LINE_SIZE];
};

static void flush(struct writer *out) {
    output_file_write(&out->file, out->text, out->line.length);
    out->line.length = 0;
}

static PRIM_COLD uint64_t rounded(double value) {
    return value > 0 ? (uint64_t)(int64_t)(value + 0.5) : 0;
}

static PRIM_COLD void print_sum(struct writer *out, const struct site_sum *sum) {
    print_format(&out->line, "%lu: %lu", rounded(sum->objects), rounded(sum->bytes));
}

static void print_sums(struct writer *out, const struct site_sum *live,
                       const struct site_sum *allocated) {
    print_sum(out, live);
    print_text(&out->line, " [");
    print_sum(out, allocated);
    print_text(&out->line, "] @");
}

static void write_site(struct site *site, void *context) {
    struct writer *out = context;
    if (site->allocated.objects > 0) {
        print_text(&out->line, " ");
        print_sums(out, &site->live, &site->allocated);
        for (unsigned i = 0; i < site->frame_count; i++) {
            print_format(&out->line, " %#lx", stack_frame_address(site->frames[i]));
        }
        print_text(&out->line, "\n");
        flush(out);
    }
}

static void copy_maps(struct writer *out) {
    if (!text_file_open(&out->maps, "/proc/thread-self/maps")) {
        return;
    }
    for (int byte; (byte = text_file_byte(&out->maps)) != TEXT_FILE_END;) {
        out->text[out->line.length++] = (char)byte;
        if (out->line.length == LINE_SIZE) {
            flush(out);
        }
    }
    text_file_close(&out->maps);
}

PRIM_COLD bool profile_text_write(const struct heap_profile *profile, const char *path) {
    struct writer *out = memory_map(sizeof *out);
    bool is_done = false;
    if (out && output_file_open(&out->file, path)) {
        out->line = print_to(out->text, LINE_SIZE);
        print_text(&out->line, "heap profile: ");
        print_sums(out, &profile->live, &profile->allocated);
        print_text(&out->line, " heapprofile\n");
        site_each(&profile->sites, write_site, out);
        print_text(&out->line, "\nMAPPED_LIBRARIES:\n");
        flush(out);
        copy_maps(out);
        flush(out);
        is_done = output_file_close(&out->file);
    }
    if (out) {
        memory_unmap(out, sizeof *out);
    }
    return is_done;
}
