/* guarded_report.c - see guarded.h: what a fault looks like to a person. */
#include <string.h>

#include "base/bits.h"
#include "base/print.h"
#include "os/process.h"
#include "watch/guarded.h"
#include "watch/stack.h"

enum { LINE_SIZE = 320 }; /* one line at a time: the stack may be small */

void guarded_capture(struct guarded_stack *stack) {
    uint64_t frames[GUARDED_FRAMES_MAX];
    stack->count = stack_capture(frames, GUARDED_FRAMES_MAX, NULL);
    for (unsigned i = 0; i < stack->count; i++) {
        stack->frames[i] = (void *)stack_frame_address(frames[i]);
    }
}

static void write_line(struct print *out) {
    out->text[out->length++] = '\n';
    process_write_error(out->text, out->length);
    out->length = 0;
}

static void write_stack(const char *title, const struct guarded_stack *stack) {
    char text[LINE_SIZE];
    struct print out = print_to(text, sizeof text - 1);
    print_text(&out, title);
    write_line(&out);
    for (unsigned i = 0; i < stack->count && i < GUARDED_FRAMES_MAX; i++) {
        uintptr_t address = (uintptr_t)stack->frames[i];
        unsigned index = module_find(address);
        print_format(&out, "    #%u %#lx", i, address);
        if (index) {
            const struct module *module = module_at(index);
            print_format(&out, " %s+%#lx", *module->path ? module->path : process_program_name(),
                         address - module->start);
        }
        write_line(&out);
    }
}

static void print_bytes_count(struct print *out, uint64_t count, const char *where) {
    print_format(out, count == 1 ? "%lu byte%s" : "%lu bytes%s", count, where);
}

/* Where the address lies, seen from the block. */
static void print_place(struct print *out, uintptr_t address, const struct guarded_slot *slot) {
    uintptr_t end = slot->block + slot->size;
    if (address < slot->block) {
        print_bytes_count(out, slot->block - address, " before");
    } else if (address >= end) {
        print_bytes_count(out, address - end + 1, " beyond the end of");
    } else {
        print_bytes_count(out, address - slot->block, " into");
    }
    print_format(out, " the %sblock at %#lx of ", slot->freed.count ? "freed " : "", slot->block);
    print_bytes_count(out, slot->size, "");
}

void guarded_report(enum guarded_fault fault, const char *verb, uintptr_t address,
                    const struct guarded_slot *slot, const struct guarded_stack *now) {
    static const char names[GUARDED_FAULT_COUNT][34] = {
        "overrun",     "underrun",     "use after free",
        "double free", "invalid free", "changed bytes, found when freeing",
    };
    char text[LINE_SIZE];
    struct print out = print_to(text, sizeof text - 1);
    print_format(&out, "primalloc: %s in process %u: %s of %#lx", names[fault], process_id(), verb,
                 address);
    if (slot && slot->block) {
        print_text(&out, ", ");
        print_place(&out, address, slot);
    } else {
        print_text(&out, ", which is no block");
    }
    write_line(&out);
    write_stack(fault >= GUARDED_DOUBLE_FREE ? "  freed here:" : "  here:", now);
    if (slot && slot->block) {
        write_stack("  allocated here:", &slot->allocated);
    }
    if (slot && slot->freed.count) {
        write_stack("  freed before, here:", &slot->freed);
    }
}
