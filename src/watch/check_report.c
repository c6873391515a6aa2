/* check_report.c - see check.h: one screen about one fault, put together in one buffer and written
 * in one piece. */
#include "base/bits.h"
#include "base/print.h"
#include "base/text.h"
#include "objects/block_bounds.h"
#include "objects/size_class.h"
#include "os/process.h"
#include "os/symbol_file.h"
#include "settings/options.h"
#include "watch/check.h"
#include "watch/stack.h"

enum { SCREEN_SIZE = 20 << 10, LABEL_COLUMN = 14, PATH_MAX_SIZE = 512 };

static const char call_names[] = "malloc\0calloc\0realloc\0aligned_alloc\0operator new\0"
                                 "operator new[]\0free\0delete\0delete[]";

/* One behind the other; the first is that of no fault. */
static const char sentences[] = "\0"
#define FAULT(name, status, sentence) sentence "\0"
#include "watch/faults.def"
#undef FAULT
    ;

static void print_label(struct print *out, const char *label) {
    size_t start = out->length;
    print_format(out, "  %s", label);
    print_padding(out, start + LABEL_COLUMN);
}

static void print_path(struct print *out, const struct module *module) {
    char path[PATH_MAX_SIZE];
    print_bytes(out, path, symbol_file_path(module, path, sizeof path));
}

/* As backtrace_symbols_fd writes them: object(+0xoffset) [0xaddress]. */
static void print_stack(struct print *out, const struct check_stack *stack) {
    for (unsigned i = 0; i < CHECK_FRAMES && stack->frames[i]; i++) {
        uintptr_t address = stack_frame_address(stack->frames[i]);
        unsigned index = stack_frame_module(stack->frames[i]);
        index = index ? index : module_find(address);
        print_text(out, "    ");
        if (index) {
            print_path(out, module_at(index));
            print_format(out, "(+%#lx) ", address - module_at(index)->start);
        }
        print_format(out, "[%#lx]\n", address);
    }
}

static void print_pointer(struct print *out, const struct check_finding *finding) {
    const struct check_record *record = finding->record;
    bool is_byte = finding->fault >= FAULT_UNDERRUN;
    print_label(out, is_byte ? "byte" : "pointer");
    print_hexadecimal(out, finding->pointer);
    if (record && (is_byte || finding->pointer != record->block)) {
        print_text(out, ", ");
        print_place(out, finding->pointer, record->block, record->block + record->size);
        print_text(out, " the block");
    } else if (finding->fault == FAULT_FOREIGN) {
        unsigned index = module_find(finding->pointer);
        if (index) {
            print_text(out, ", in the data of ");
            print_path(out, module_at(index));
        } else if (process_is_stack(finding->pointer)) {
            print_text(out, ", on the stack");
        }
    }
    print_text(out, "\n");
}

/* No alignment is the usual one. */
static void print_number(struct print *out, size_t number, bool is_size) {
    if (number || is_size) {
        print_decimal(out, number);
    } else {
        print_text(out, "none");
    }
}

static void print_stated(struct print *out, const struct check_finding *finding) {
    const struct request *request = finding->request;
    if (finding->fault == FAULT_WRONG_SIZE || finding->fault == FAULT_WRONG_ALIGNMENT) {
        bool is_size = finding->fault == FAULT_WRONG_SIZE;
        print_label(out, "stated");
        print_text(out, is_size ? "size " : "alignment ");
        print_number(out, is_size ? request->stated_size : request->alignment, is_size);
        print_text(out, ", but it was allocated with ");
        print_number(out, is_size ? finding->record->size : finding->record->alignment, is_size);
        print_text(out, "\n");
    }
}

static void print_call(struct print *out, const char *label, const char *by, unsigned call,
                       const struct check_stack *stack) {
    print_label(out, label);
    print_format(out, "%s%s\n", by, text_at(call_names, call));
    print_stack(out, stack);
}

static void print_block(struct print *out, const struct check_record *record) {
    struct block_bounds bounds = block_bounds_of((void *)record->block);
    print_label(out, "block");
    print_format(out, "%#lx, ", record->block);
    print_byte_count(out, record->size);
    if (bounds.object_class && bounds.object_class <= CLASS_COUNT) {
        print_format(out, ", in size class %lu", bounds.size);
    } else if (bounds.object_class == CLASS_LARGE) {
        print_text(out, ", a large one");
    } else if (bounds.object_class == CLASS_ARENA) {
        print_text(out, ", of a heap or tag");
    }
    print_text(out, record->is_freed ? ", free\n" : ", in use\n");
    print_call(out, "allocated", "by ", record->call, &record->allocated);
    if (record->is_freed) {
        print_call(out, "freed", "by ", record->freed_call, &record->freed);
    }
}

/* What we know of the place beside a block's. */
static void print_neighbour(struct print *out, const char *label, uintptr_t place) {
    struct block_bounds bounds = block_bounds_of((void *)place);
    const struct check_record *record = check_record_in(&bounds);
    if (record) {
        print_label(out, label);
        print_format(out, "%#lx, ", record->block);
        print_byte_count(out, record->size);
        print_format(out, ", %s, from %s\n", record->is_freed ? "free" : "in use",
                     text_at(call_names, record->call));
    }
}

static void print_neighbours(struct print *out, const struct check_record *record) {
    struct block_bounds bounds = block_bounds_of((void *)(record->block - record->front));
    if (bounds.object_class && bounds.object_class <= CLASS_COUNT) {
        print_neighbour(out, "before it", bounds.start - 1);
        print_neighbour(out, "behind it", bounds.start + bounds.size);
    }
}

void check_report(const struct check_finding *finding, const char *occasion) {
    static PRIM_FAR char screen[SCREEN_SIZE]; /* (lock: CHECKS) */
    struct print out = print_to(screen, sizeof screen);
    print_format(&out, "primalloc: %s\n", text_at(sentences, finding->fault));
    print_label(&out, "process");
    print_format(&out, "%u (%s)\n", process_id(), process_program_name());
    print_pointer(&out, finding);
    if (finding->request) {
        print_stated(&out, finding);
        print_call(&out, "this call", "", finding->request->call, &finding->now);
    } else {
        print_label(&out, "found");
        print_format(&out, "%s\n", occasion);
    }
    if (finding->record) {
        print_block(&out, finding->record);
        print_neighbours(&out, finding->record);
    }
    print_label(&out, "now");
    print_format(&out, "the program %s\n",
                 option_now(check) == CHECK_FULL ? "is aborted" : "goes on");
    process_write_error(screen, out.length);
}
