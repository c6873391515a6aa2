/* unwind.h - the rule by which one frame is left, read from the unwind tables.
 *
 * A rule says how the caller's registers follow from the callee's: its canonical frame address
 * (CFA, the stack pointer before the call) from a register, and where the others were saved,
 * relative to that. Tables are those that exceptions need (.eh_frame, found by the sorted table of
 * .eh_frame_hdr); our own reader takes no lock, allocates nothing and reads only the module that
 * the address lies in. After DWARF 5, 6.4, and the Linux Standard Base, 10.6. */
#ifndef PRIM_WATCH_UNWIND_H
#define PRIM_WATCH_UNWIND_H

#include "os/module.h"
#include "os/registers.h"

enum unwind_how {
    UNWIND_SAME,          /* the caller's is the callee's */
    UNWIND_AT_OFFSET,     /* in memory at CFA + offset */
    UNWIND_IS_OFFSET,     /* CFA + offset */
    UNWIND_AT_EXPRESSION, /* in memory at the expression's value */
    UNWIND_IS_EXPRESSION, /* the expression's value */
    UNWIND_UNDEFINED,     /* lost; of the return address: the outermost frame */
};

/* An expression is a length and so many bytes of operations, in the module's table. */
struct unwind_place {
    uint8_t how; /* enum unwind_how */
    int32_t offset;
    const uint8_t *expression;
};

struct unwind_rule {
    struct unwind_place saved[UNWIND_REGISTER_COUNT]; /* that of UNWIND_STACK is not used */
    const uint8_t *cfa_expression;                    /* NULL: by register and offset */
    int64_t cfa_offset;
    uint8_t cfa_register; /* enum unwind_register; UNWIND_REGISTER_COUNT: one we do not follow */
    bool is_signal;       /* the frame of a signal's trampoline: the caller was interrupted */
};

/* The rule at an address of the module; false if its tables say nothing about it. */
bool unwind_find(const struct module *module, uintptr_t address, struct unwind_rule *rule);

/* Reads a word of the stack for the walk; false ends it. */
typedef bool unwind_read(void *context, uintptr_t address, uintptr_t *word);

/* The value of an expression in the callee's registers. CFA is pushed first where the rule is for a
 * saved register. */
bool unwind_evaluate(const uint8_t *expression, const struct registers *registers,
                     const uintptr_t *cfa, unwind_read *read, void *context, uintptr_t *result);

#endif
