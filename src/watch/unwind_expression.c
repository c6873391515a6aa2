/* unwind_expression.c - the small stack machine behind unwind_evaluate(); DWARF 5, 2.5. */
#include "watch/table_reader.h"
#include "watch/unwind.h"

enum {
    DEPTH_MAX = 8,
    LITERAL_FIRST = 0x30,
    LITERAL_LAST = 0x4f,
    BASE_FIRST = 0x70,
    BASE_LAST = 0x8f
};

struct stack {
    uintptr_t values[DEPTH_MAX];
    unsigned depth;
    bool has_failed; /* too deep, too shallow, or an operation that we do not know */
};

static void push(struct stack *stack, uintptr_t value) {
    if (stack->depth == DEPTH_MAX) {
        stack->has_failed = true;
    } else {
        stack->values[stack->depth++] = value;
    }
}

static uintptr_t pop(struct stack *stack) {
    if (stack->depth == 0) {
        stack->has_failed = true;
        return 0;
    }
    return stack->values[--stack->depth];
}

static uintptr_t binary(struct stack *stack, uint8_t operation, uintptr_t a, uintptr_t b) {
    switch (operation) {
    case 0x1a:
        return a & b;
    case 0x1c:
        return a - b;
    case 0x1e:
        return a * b;
    case 0x21:
        return a | b;
    case 0x22:
        return a + b;
    case 0x24:
        return b < 64 ? a << b : 0;
    case 0x25:
        return b < 64 ? a >> b : 0;
    case 0x29:
        return a == b;
    case 0x2a:
        return (intptr_t)a >= (intptr_t)b;
    case 0x2b:
        return (intptr_t)a > (intptr_t)b;
    case 0x2c:
        return (intptr_t)a <= (intptr_t)b;
    case 0x2d:
        return (intptr_t)a < (intptr_t)b;
    case 0x2e:
        return a != b;
    default:
        stack->has_failed = true;
        return 0;
    }
}

/* Constants of 1, 2, 4 and 8 bytes, each without and with a sign. */
static uintptr_t constant(struct table_reader *in, uint8_t operation) {
    unsigned size = 1u << (operation - 0x08) / 2;
    uint64_t value = table_fixed(in, size);
    unsigned unused = 64 - 8 * size;
    return operation & 1 ? (uintptr_t)((int64_t)(value << unused) >> unused) : value;
}

static void operate(struct stack *stack, struct table_reader *in, uint8_t operation) {
    uintptr_t top;
    switch (operation) {
    case 0x10:
        push(stack, table_unsigned(in));
        break;
    case 0x11:
        push(stack, (uintptr_t)table_signed(in));
        break;
    case 0x12:
        top = pop(stack);
        push(stack, top);
        push(stack, top);
        break;
    case 0x13:
        pop(stack);
        break;
    case 0x23:
        push(stack, pop(stack) + table_unsigned(in));
        break;
    default:
        top = pop(stack);
        push(stack, binary(stack, operation, pop(stack), top));
    }
}

PRIM_COLD bool unwind_evaluate(const uint8_t *expression, const struct registers *registers,
                               const uintptr_t *cfa, unwind_read *read, void *context,
                               uintptr_t *result) {
    struct table_reader in = {expression, expression + 10, false};
    uint64_t length = table_unsigned(&in);
    in.end = in.next + length;
    struct stack stack = {.depth = 0};
    if (cfa) {
        push(&stack, *cfa);
    }
    while (in.next < in.end && !in.has_failed && !stack.has_failed) {
        uint8_t operation = (uint8_t)table_fixed(&in, 1);
        if (operation >= LITERAL_FIRST && operation <= LITERAL_LAST) {
            push(&stack, operation - LITERAL_FIRST);
        } else if (operation >= BASE_FIRST && operation <= BASE_LAST) {
            unsigned known = register_of_dwarf(operation - BASE_FIRST);
            stack.has_failed = known == UNWIND_REGISTER_COUNT;
            push(&stack,
                 (uintptr_t)table_signed(&in) + (stack.has_failed ? 0 : registers->values[known]));
        } else if (operation == 0x06) {
            uintptr_t word = 0;
            stack.has_failed = !read(context, pop(&stack), &word) || stack.has_failed;
            push(&stack, word);
        } else if (operation >= 0x08 && operation <= 0x0f) {
            push(&stack, constant(&in, operation));
        } else {
            operate(&stack, &in, operation);
        }
    }
    *result = pop(&stack);
    return !stack.has_failed && !in.has_failed;
}
