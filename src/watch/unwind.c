/* unwind.c - see unwind.h: finds the entry of an address and runs its program.
 *
 * A table's entry (FDE) belongs to a common part (CIE). Both hold small programs whose operations
 * move forward through the function's code and say how the rule changes there; run up to the
 * address, they leave the rule that holds at it. */
#include "watch/unwind.h"

#include "watch/table_reader.h"

enum {
    HEADER_SIZE = 12, /* of .eh_frame_hdr, up to the sorted table */
    HEADER_VERSION = 1,
    ROW_SIZE = 8,
    REMEMBERED_MAX = 4,
};

/* Of both parts of an entry. */
struct entry {
    struct table_reader common; /* the program that sets the function's first rule */
    struct table_reader own;    /* the program of the function itself */
    uintptr_t start;            /* of the function */
    uint64_t code_unit;
    int64_t data_unit;
    uint8_t encoding;
    bool is_signal;
};

struct machine {
    struct unwind_rule rule;
    struct unwind_rule first; /* after the common program: what `restore` goes back to */
    struct unwind_rule remembered[REMEMBERED_MAX];
    unsigned remembered_count;
    uintptr_t place; /* in the code */
    const struct entry *entry;
    const uint8_t *block; /* operand of an expression: its length and bytes */
};

static int32_t signed4(const uint8_t *at) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* The sorted table holds, relative to itself, a function's start and its entry in each row. */
static const uint8_t *find_entry(const struct module *module, uintptr_t address) {
    const uint8_t *header = module->table;
    if (!header || header[0] != HEADER_VERSION || header[2] != ENCODING_UNSIGNED4 ||
        header[3] != (ENCODING_HEADER | ENCODING_SIGNED4)) {
        return NULL;
    }
    uint32_t count = (uint32_t)signed4(header + HEADER_SIZE - 4);
    const uint8_t *rows = header + HEADER_SIZE;
    intptr_t wanted = (intptr_t)(address - (uintptr_t)header);
    if (count == 0 || wanted < signed4(rows)) {
        return NULL;
    }
    uint32_t low = 0;
    for (uint32_t length = count; length > 1;) {
        uint32_t half = length / 2;
        low += signed4(rows + (size_t)(low + half) * ROW_SIZE) <= wanted ? half : 0;
        length -= half;
    }
    return header + signed4(rows + (size_t)low * ROW_SIZE + 4);
}

/* Where an entry's bytes begin and end; its second word is still to be read. */
static bool open_entry(const uint8_t *at, struct table_reader *in) {
    *in = (struct table_reader){at, at + 12, false};
    uint64_t length = table_fixed(in, 4);
    if (length == UINT32_MAX) {
        length = table_fixed(in, 8);
    }
    in->end = in->next + length;
    return length != 0;
}

static bool read_common(const uint8_t *at, struct entry *entry) {
    struct table_reader in;
    if (!open_entry(at, &in) || table_fixed(&in, 4) != 0) {
        return false;
    }
    uint8_t version = (uint8_t)table_fixed(&in, 1);
    const char *augmentation = (const char *)in.next;
    if (!table_skip(&in, strnlen(augmentation, (size_t)(in.end - in.next)) + 1)) {
        return false;
    }
    entry->code_unit = table_unsigned(&in);
    entry->data_unit = table_signed(&in);
    uint64_t return_column = version == 1 ? table_fixed(&in, 1) : table_unsigned(&in);
    if (register_of_dwarf(return_column) != UNWIND_RETURN || *augmentation != 'z') {
        return false;
    }
    uint64_t length = table_unsigned(&in);
    const uint8_t *behind = in.next + length;
    for (const char *letter = augmentation + 1; *letter; letter++) {
        uintptr_t ignored;
        if (*letter == 'R') {
            entry->encoding = (uint8_t)table_fixed(&in, 1);
        } else if (*letter == 'L') {
            table_fixed(&in, 1);
        } else if (*letter == 'P') {
            table_address(&in, (uint8_t)table_fixed(&in, 1), true, &ignored);
        } else if (*letter == 'S') {
            entry->is_signal = true;
        } else if (*letter != 'B') {
            break;
        }
    }
    entry->common = (struct table_reader){behind, in.end, in.has_failed};
    return behind <= in.end && !in.has_failed;
}

static bool read_entry(const uint8_t *at, uintptr_t address, struct entry *entry) {
    struct table_reader in;
    if (!open_entry(at, &in)) {
        return false;
    }
    const uint8_t *here = in.next;
    uint32_t back = (uint32_t)table_fixed(&in, 4);
    uintptr_t length;
    if (back == 0 || !read_common(here - back, entry) ||
        !table_address(&in, entry->encoding, false, &entry->start) ||
        !table_address(&in, entry->encoding, true, &length) || address - entry->start >= length) {
        return false;
    }
    uint64_t augmentation_length = table_unsigned(&in);
    entry->own = in;
    return table_skip(&entry->own, augmentation_length);
}

/* Operands of each operation: r register, u and s numbers, d a number in data units, e the same
 * signed, b an expression, 1 2 4 8 bytes, f a number in data units that counts downwards. */
static const char operands_of[0x30][3] = {
    [0x01] = "8",  [0x02] = "1",  [0x03] = "2",  [0x04] = "4",  [0x05] = "rd", [0x06] = "r",
    [0x07] = "r",  [0x08] = "r",  [0x09] = "ru", [0x0c] = "ru", [0x0d] = "r",  [0x0e] = "u",
    [0x0f] = "b",  [0x10] = "rb", [0x11] = "re", [0x12] = "re", [0x13] = "e",  [0x14] = "rd",
    [0x15] = "re", [0x16] = "rb", [0x2e] = "u",  [0x2f] = "rf",
};

static int64_t read_operand(struct machine *machine, struct table_reader *in, char kind) {
    int64_t unit = machine->entry->data_unit;
    switch (kind) {
    case 'r':
        return register_of_dwarf(table_unsigned(in));
    case 'u':
        return (int64_t)table_unsigned(in);
    case 'd':
        return (int64_t)table_unsigned(in) * unit;
    case 'e':
        return table_signed(in) * unit;
    case 'f':
        return -(int64_t)table_unsigned(in) * unit;
    case 'b':
        machine->block = in->next;
        return table_skip(in, table_unsigned(in));
    default:
        return (int64_t)table_fixed(in, (unsigned)(kind - '0'));
    }
}

static void save(struct machine *machine, int64_t reg, enum unwind_how how, int64_t offset) {
    if (reg < UNWIND_REGISTER_COUNT) {
        machine->rule.saved[reg] =
            (struct unwind_place){(uint8_t)how, (int32_t)offset, machine->block};
    }
}

/* The operations about the CFA and those that keep and bring back whole rules. */
static bool apply_frame(struct machine *machine, uint8_t operation, int64_t a, int64_t b) {
    struct unwind_rule *rule = &machine->rule;
    switch (operation) {
    case 0x0a:
        if (machine->remembered_count == REMEMBERED_MAX) {
            return false;
        }
        machine->remembered[machine->remembered_count++] = *rule;
        return true;
    case 0x0b:
        if (machine->remembered_count == 0) {
            return false;
        }
        *rule = machine->remembered[--machine->remembered_count];
        return true;
    case 0x0c:
    case 0x12:
        rule->cfa_register = (uint8_t)a;
        rule->cfa_offset = b;
        rule->cfa_expression = NULL;
        return true;
    case 0x0d:
        rule->cfa_register = (uint8_t)a;
        return true;
    case 0x0e:
    case 0x13:
        rule->cfa_offset = a;
        return true;
    case 0x0f:
        rule->cfa_expression = machine->block;
        return true;
    default: /* nop, and what does not concern us */
        return operation == 0x00 || operation == 0x2d || operation == 0x2e;
    }
}

static bool apply(struct machine *machine, uint8_t operation, int64_t a, int64_t b) {
    switch (operation) {
    case 0x01:
        return false; /* set_loc: nobody writes it */
    case 0x02:
    case 0x03:
    case 0x04:
        machine->place += (uint64_t)a * machine->entry->code_unit;
        return true;
    case 0x05:
    case 0x11:
    case 0x2f:
        save(machine, a, UNWIND_AT_OFFSET, b);
        return true;
    case 0x06:
        if (a < UNWIND_REGISTER_COUNT) {
            machine->rule.saved[a] = machine->first.saved[a];
        }
        return true;
    case 0x07:
    case 0x09: /* in another register: lost to us */
        save(machine, a, UNWIND_UNDEFINED, 0);
        return true;
    case 0x08:
        save(machine, a, UNWIND_SAME, 0);
        return true;
    case 0x10:
        save(machine, a, UNWIND_AT_EXPRESSION, 0);
        return true;
    case 0x14:
    case 0x15:
        save(machine, a, UNWIND_IS_OFFSET, b);
        return true;
    case 0x16:
        save(machine, a, UNWIND_IS_EXPRESSION, 0);
        return true;
    default:
        return apply_frame(machine, operation, a, b);
    }
}

/* Runs a program until it passes the address. The three commonest operations have an operand of six
 * bits inside: they are the short forms of 0x02, 0x05 and 0x06. */
static bool run(struct machine *machine, struct table_reader in, uintptr_t address) {
    while (in.next < in.end && !in.has_failed) {
        uint8_t operation = (uint8_t)table_fixed(&in, 1);
        int64_t inside = operation & 0x3f;
        int64_t operands[2] = {0, 0};
        if (operation >> 6 == 1) {
            operation = 0x02;
            operands[0] = inside;
        } else if (operation >> 6) {
            operands[0] = register_of_dwarf((uint64_t)inside);
            operands[1] = operation >> 6 == 2 ? read_operand(machine, &in, 'd') : 0;
            operation = operation >> 6 == 2 ? 0x05 : 0x06;
        } else if (operation < sizeof operands_of / sizeof operands_of[0]) {
            for (unsigned i = 0; i < 2 && operands_of[operation][i]; i++) {
                operands[i] = read_operand(machine, &in, operands_of[operation][i]);
            }
        }
        if (!apply(machine, operation, operands[0], operands[1])) {
            return false;
        }
        if (machine->place > address) {
            return true;
        }
    }
    return !in.has_failed;
}

PRIM_COLD bool unwind_find(const struct module *module, uintptr_t address,
                           struct unwind_rule *rule) {
    const uint8_t *at = find_entry(module, address);
    struct entry entry = {.code_unit = 1};
    if (!at || !read_entry(at, address, &entry)) {
        return false;
    }
    struct machine machine = {.entry = &entry, .place = entry.start};
    machine.rule.cfa_register = UNWIND_REGISTER_COUNT;
    machine.rule.is_signal = entry.is_signal;
    if (!run(&machine, entry.common, UINTPTR_MAX)) {
        return false;
    }
    machine.first = machine.rule;
    if (!run(&machine, entry.own, address)) {
        return false;
    }
    *rule = machine.rule;
    return true;
}
