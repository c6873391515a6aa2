/* check_report.c - see check.h: one screen about one fault, put together in one buffer and written
 * in one piece. */
#include <string.h>

#include "base/bits.h"
#include "base/print.h"
#include "objects/block_bounds.h"
#include "objects/size_class.h"
#include "os/process.h"
#include "settings/options.h"
#include "watch/check.h"
#include "watch/stack.h"

enum { SCREEN_SIZE = 8192, LABEL_COLUMN = 14, PATH_MAX_SIZE = 512 };

static const char call_names[CALL_COUNT][16] = {
    "malloc",         "calloc", "realloc", "aligned_alloc", "operator new",
    "operator new[]", "free",   "delete",  "delete[]",
};

/* One behind the other; the first is that of no fault. */
static const char sentences[] = "\0"
#define FAULT(name, status, sentence) sentence "\0"
#include "watch/faults.def"
#undef FAULT
    ;

static const char *sentence_of(enum check_fault fault) {
    const char *sentence = sentences;
    for (unsigned i = 0; i < (unsigned)fault; i++) {
        sentence += strlen(sentence) + 1;
    }
    return sentence;
}

static void print_label(struct print *out, const char *label) {
    size_t start = out->length;
    print_text(out, "  ");
    print_text(out, label);
    print_padding(out, start + LABEL_COLUMN);
}

static void print_count(struct print *out, uint64_t count) {
    print_decimal(out, count);
    print_text(out, count == 1 ? " byte" : " bytes");
}

static void print_path(struct print *out, const struct module *module) {
    char path[PATH_MAX_SIZE];
    size_t length = *module->path ? 0 : process_program_path(path, sizeof path);
    if (length) {
        print_bytes(out, path, length);
    } else {
        print_text(out, *module->path ? module->path : process_program_name());
    }
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
            print_text(out, "(+");
            print_hexadecimal(out, address - module_at(index)->start);
            print_text(out, ") ");
        }
        print_text(out, "[");
        print_hexadecimal(out, address);
        print_text(out, "]\n");
    }
}

/* Where an address lies, seen from a block. */
static void print_place(struct print *out, uintptr_t address, const struct check_record *record) {
    uintptr_t end = record->block + record->size;
    if (address < record->block) {
        print_count(out, record->block - address);
        print_text(out, " before the block");
    } else if (address >= end) {
        print_count(out, address - end + 1);
        print_text(out, " beyond the end of the block");
    } else {
        print_count(out, address - record->block);
        print_text(out, " into the block");
    }
}

static void print_pointer(struct print *out, const struct check_finding *finding) {
    const struct check_record *record = finding->record;
    bool is_byte = finding->fault >= FAULT_UNDERRUN;
    print_label(out, is_byte ? "byte" : "pointer");
    print_hexadecimal(out, finding->pointer);
    if (record && (is_byte || finding->pointer != record->block)) {
        print_text(out, ", ");
        print_place(out, finding->pointer, record);
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

static void print_block(struct print *out, const struct check_record *record) {
    struct block_bounds bounds = block_bounds_of((void *)record->block);
    print_label(out, "block");
    print_hexadecimal(out, record->block);
    print_text(out, ", ");
    print_count(out, record->size);
    if (bounds.object_class && bounds.object_class <= CLASS_COUNT) {
        print_text(out, ", in size class ");
        print_decimal(out, bounds.size);
    } else if (bounds.object_class == CLASS_LARGE) {
        print_text(out, ", a large one");
    } else if (bounds.object_class == CLASS_ARENA) {
        print_text(out, ", of a heap or tag");
    }
    print_text(out, record->is_freed ? ", free\n" : ", in use\n");
    print_label(out, "allocated");
    print_text(out, "by ");
    print_text(out, call_names[record->call]);
    print_text(out, "\n");
    print_stack(out, &record->allocated);
    if (record->is_freed) {
        print_label(out, "freed");
        print_text(out, "by ");
        print_text(out, call_names[record->freed_call]);
        print_text(out, "\n");
        print_stack(out, &record->freed);
    }
}

/* What we know of the place beside a block's. */
static void print_neighbour(struct print *out, const char *label, uintptr_t place) {
    struct block_bounds bounds = block_bounds_of((void *)place);
    const struct check_record *record = NULL;
    for (size_t front = 16; front < bounds.size && !record; front *= 2) {
        record = check_table_find(bounds.start + front);
    }
    if (record) {
        print_label(out, label);
        print_hexadecimal(out, record->block);
        print_text(out, ", ");
        print_count(out, record->size);
        print_text(out, record->is_freed ? ", free, from " : ", in use, from ");
        print_text(out, call_names[record->call]);
        print_text(out, "\n");
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
    print_text(&out, "primalloc: ");
    print_text(&out, sentence_of(finding->fault));
    print_text(&out, "\n");
    print_label(&out, "process");
    print_decimal(&out, process_id());
    print_text(&out, " (");
    print_text(&out, process_program_name());
    print_text(&out, ")\n");
    print_pointer(&out, finding);
    if (finding->request) {
        print_stated(&out, finding);
        print_label(&out, "this call");
        print_text(&out, call_names[finding->request->call]);
        print_text(&out, "\n");
        print_stack(&out, &finding->now);
    } else {
        print_label(&out, "when");
        print_text(&out, occasion);
        print_text(&out, "\n");
    }
    if (finding->record) {
        print_block(&out, finding->record);
        print_neighbours(&out, finding->record);
    }
    print_label(&out, "now");
    print_text(&out, option_now(check) == CHECK_FULL ? "the program is aborted\n"
                                                     : "the program goes on\n");
    process_write_error(screen, out.length);
}
