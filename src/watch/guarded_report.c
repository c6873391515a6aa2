/* guarded_report.c - see guarded.h: what a fault looks like to a person. */
#include <string.h>

#include "base/bits.h"
#include "base/print.h"
#include "base/text.h"
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

void guarded_report(enum guarded_fault fault, const char *verb, uintptr_t address,
                    const struct guarded_slot *slot, const struct guarded_stack *now) {
    static const char names[] = "overrun\0underrun\0use after free\0double free\0invalid free\0"
                                "changed bytes, found when freeing";
    char text[LINE_SIZE];
    struct print out = print_to(text, sizeof text - 1);
    print_format(&out, "primalloc: %s in process %u: %s of %#lx", text_at(names, fault),
                 process_id(), verb, address);
    if (slot && slot->block) {
        print_text(&out, ", ");
        print_place(&out, address, slot->block, slot->block + slot->size);
        print_format(&out, " the %sblock at %#lx of ", slot->freed.count ? "freed " : "",
                     slot->block);
        print_byte_count(&out, slot->size);
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
