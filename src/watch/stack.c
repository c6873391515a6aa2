/* stack.c - see stack.h.
 *
 * Rules that were found are kept in one table for all threads, in two words: an address with its
 * module, and the packed rule. Both are read and written without a lock; the first is combined with
 * the second, so that halves of different entries do not fit together. */
#include "watch/stack.h"

#include <string.h>

#include "base/bits.h"
#include "os/readable.h"
#include "os/registers.h"
#include "watch/unwind.h"

enum {
    SLOT_COUNT = 8192,
    FRAME_SIZE_MAX = 1 << 20, /* of code that only has frame pointers */
    PAGE_LEAST = 4096,
    CFA_BITS = 22,
    PLACE_BITS = 12,
    WORD = sizeof(uintptr_t),
};

enum kind {
    KIND_NONE,    /* not known, or too much for the table */
    KIND_PLAIN,   /* CFA = register + offset */
    KIND_POINTER, /* by frame pointer */
    KIND_END,     /* nobody called this frame */
};

/* A rule without its rare parts. Offsets are words; 0 for a register that was not saved. */
struct step {
    int64_t cfa_offset;
    int64_t places[UNWIND_REGISTER_COUNT]; /* from the CFA */
    unsigned cfa_register;
    enum kind kind;
};

struct slot {
    _Atomic uint64_t key;  /* (atomic: hint) address and module, combined with the rule */
    _Atomic uint64_t rule; /* (atomic: hint) */
};

static struct slot slots[SLOT_COUNT];

struct walk {
    struct registers registers;
    uintptr_t low;   /* from here */
    uintptr_t high;  /* to here the stack can be read */
    bool is_at_call; /* the address is that behind a call: what counts lies before it */
};

static bool read_word(void *context, uintptr_t address, uintptr_t *word) {
    struct walk *walk = context;
    if (PRIM_UNLIKELY(address - walk->low >= walk->high - walk->low)) {
        uintptr_t page = bits_round_down(address, PAGE_LEAST);
        if (!readable_page(address)) {
            return false;
        }
        if (page != walk->high) {
            walk->low = page;
        }
        walk->high = page + PAGE_LEAST;
    }
    if (address % WORD != 0) {
        return false;
    }
    *word = *(const volatile uintptr_t *)address;
    return true;
}

static uint64_t mix(uint64_t value) {
    value *= 0x9e3779b97f4a7c15;
    return value ^ value >> 32;
}

static struct slot *slot_of(uintptr_t address) {
    return &slots[mix(address) >> 8 & (SLOT_COUNT - 1)];
}

static uint64_t field(int64_t value, unsigned bits) {
    return (uint64_t)value & (((uint64_t)1 << bits) - 1);
}

static int64_t take_field(uint64_t *packed, unsigned bits) {
    int64_t value = (int64_t)(*packed << (64 - bits)) >> (64 - bits);
    *packed >>= bits;
    return value;
}

static bool fits(int64_t value, unsigned bits) {
    return value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1);
}

/* 0 if it does not fit. */
static uint64_t pack(const struct step *step) {
    uint64_t packed = 0;
    for (unsigned i = UNWIND_FRAME; i < UNWIND_REGISTER_COUNT; i++) {
        if (!fits(step->places[i], PLACE_BITS)) {
            return 0;
        }
        packed = packed << PLACE_BITS | field(step->places[i], PLACE_BITS);
    }
    if (!fits(step->cfa_offset, CFA_BITS)) {
        return 0;
    }
    packed = packed << CFA_BITS | field(step->cfa_offset, CFA_BITS);
    return packed << 6 | (uint64_t)step->cfa_register << 4 | step->kind;
}

static void unpack(uint64_t packed, struct step *step) {
    step->kind = (enum kind)(packed & 15);
    step->cfa_register = packed >> 4 & 3;
    packed >>= 6;
    step->cfa_offset = take_field(&packed, CFA_BITS);
    for (unsigned i = UNWIND_REGISTER_COUNT - 1; i >= UNWIND_FRAME; i--) {
        step->places[i] = take_field(&packed, PLACE_BITS);
    }
}

/* A rule as a step, if it is of the common kind. */
static bool simplify(const struct unwind_rule *rule, struct step *step) {
    const struct unwind_place *saved = rule->saved;
    if (saved[UNWIND_RETURN].how == UNWIND_UNDEFINED) {
        *step = (struct step){.kind = KIND_END};
        return true;
    }
    for (unsigned i = UNWIND_FRAME; i < UNWIND_REGISTER_COUNT; i++) {
        step->places[i] = 0;
        if (saved[i].how == UNWIND_AT_OFFSET) {
            step->places[i] = saved[i].offset / (int)WORD;
        } else if (saved[i].how != UNWIND_SAME && saved[i].how != UNWIND_UNDEFINED) {
            return false;
        }
    }
    if (rule->is_signal || rule->cfa_expression) {
        return false;
    }
    step->cfa_register = rule->cfa_register;
    step->cfa_offset = rule->cfa_offset / (int64_t)WORD;
    step->kind = KIND_PLAIN;
    return rule->cfa_register < UNWIND_RETURN && rule->cfa_offset % (int64_t)WORD == 0;
}

/* To the frame whose return address, stack and frame pointers these are. */
static bool arrive(struct walk *walk, uintptr_t return_address, uintptr_t cfa) {
    struct registers *registers = &walk->registers;
    registers->pc = address_without_signature(return_address);
    registers->values[UNWIND_STACK] = cfa;
    registers->values[UNWIND_RETURN] = registers->pc;
    walk->is_at_call = true;
    return registers->pc >= PAGE_LEAST;
}

static bool step_by_pointer(struct walk *walk) {
    uintptr_t *values = walk->registers.values;
    uintptr_t frame = values[UNWIND_FRAME];
    uintptr_t return_address;
    return frame - values[UNWIND_STACK] < FRAME_SIZE_MAX &&
           read_word(walk, frame + WORD, &return_address) &&
           read_word(walk, frame, &values[UNWIND_FRAME]) &&
           arrive(walk, return_address, frame + WORD + WORD);
}

static bool step_plainly(struct walk *walk, const struct step *step) {
    uintptr_t *values = walk->registers.values;
    uintptr_t cfa = values[step->cfa_register] + (uintptr_t)step->cfa_offset * WORD;
    if (PRIM_UNLIKELY(cfa < values[UNWIND_STACK])) {
        return false;
    }
    for (unsigned i = UNWIND_FRAME; i < UNWIND_REGISTER_COUNT; i++) {
        if (step->places[i] &&
            !read_word(walk, cfa + (uintptr_t)step->places[i] * WORD, &values[i])) {
            return false;
        }
    }
    return arrive(walk, values[UNWIND_RETURN], cfa);
}

static bool take_step(struct walk *walk, const struct step *step) {
    return step->kind == KIND_POINTER ? step_by_pointer(walk)
                                      : step->kind != KIND_END && step_plainly(walk, step);
}

static bool find_place(struct walk *walk, const struct unwind_place *place, uintptr_t cfa,
                       uintptr_t *value) {
    uintptr_t address = cfa + (uintptr_t)(intptr_t)place->offset;
    switch (place->how) {
    case UNWIND_AT_OFFSET:
        return read_word(walk, address, value);
    case UNWIND_IS_OFFSET:
        *value = address;
        return true;
    case UNWIND_AT_EXPRESSION:
        return unwind_evaluate(place->expression, &walk->registers, &cfa, read_word, walk,
                               &address) &&
               read_word(walk, address, value);
    case UNWIND_IS_EXPRESSION:
        return unwind_evaluate(place->expression, &walk->registers, &cfa, read_word, walk, value);
    default:
        return place->how == UNWIND_SAME;
    }
}

/* By all that a rule may say: signal frames, functions that align their stack, other rarities. */
static PRIM_COLD bool step_by_rule(struct walk *walk, const struct unwind_rule *rule) {
    uintptr_t caller[UNWIND_REGISTER_COUNT];
    uintptr_t cfa;
    memcpy(caller, walk->registers.values, sizeof caller);
    if (rule->cfa_expression) {
        if (!unwind_evaluate(rule->cfa_expression, &walk->registers, NULL, read_word, walk, &cfa)) {
            return false;
        }
    } else if (rule->cfa_register < UNWIND_REGISTER_COUNT) {
        cfa = caller[rule->cfa_register] + (uintptr_t)rule->cfa_offset;
    } else {
        return false;
    }
    for (unsigned i = UNWIND_FRAME; i < UNWIND_REGISTER_COUNT; i++) {
        bool is_lost = rule->saved[i].how == UNWIND_UNDEFINED && i != UNWIND_RETURN;
        if (!is_lost && !find_place(walk, &rule->saved[i], cfa, &caller[i])) {
            return false;
        }
    }
    memcpy(walk->registers.values, caller, sizeof caller);
    bool has_caller = arrive(walk, caller[UNWIND_RETURN], cfa);
    walk->is_at_call = !rule->is_signal;
    return has_caller;
}

/* The first time at an address: reads the tables, and keeps what they say. */
static PRIM_COLD bool step_anew(struct walk *walk, uintptr_t address, unsigned module) {
    struct unwind_rule rule;
    struct step step = {.kind = KIND_POINTER};
    if (module && unwind_find(module_at(module), address, &rule) && !simplify(&rule, &step)) {
        return step_by_rule(walk, &rule);
    }
    uint64_t packed = pack(&step);
    if (module && packed) {
        struct slot *slot = slot_of(address);
        store_relaxed(&slot->rule, packed);
        store_relaxed(&slot->key, ((uint64_t)module << STACK_MODULE_SHIFT | address) ^ mix(packed));
    }
    return take_step(walk, &step);
}

/* Leaves the innermost frame; *module is that of the frame that is left. */
static bool leave_frame(struct walk *walk, unsigned *module) {
    uintptr_t address = walk->registers.pc - walk->is_at_call;
    struct slot *slot = slot_of(address);
    uint64_t packed = load_relaxed(&slot->rule);
    uint64_t key = load_relaxed(&slot->key) ^ mix(packed);
    if (PRIM_LIKELY(stack_frame_address(key) == address && packed)) {
        unsigned known = stack_frame_module(key);
        *module = module_find_again(address, known);
        if (PRIM_LIKELY(*module == known)) {
            struct step step;
            unpack(packed, &step);
            return take_step(walk, &step);
        }
    } else {
        *module = module_find(address);
    }
    return step_anew(walk, address, *module);
}

#define WALK_START(walk)                                                         \
    REGISTERS_HERE(&(walk)->registers);                                          \
    (walk)->low = bits_round_down((walk)->registers.values[UNWIND_STACK], WORD); \
    (walk)->high = bits_round_down((walk)->low, PAGE_LEAST) + PAGE_LEAST;        \
    (walk)->is_at_call = false

PRIM_NOINLINE unsigned stack_capture(void **frames, unsigned max, unsigned skip) {
    struct walk walk;
    unsigned module;
    unsigned count = 0;
    WALK_START(&walk);
    while (count < max && UNWIND_IS_KNOWN && leave_frame(&walk, &module)) {
        if (skip) {
            skip--;
        } else {
            frames[count++] = (void *)walk.registers.pc;
        }
    }
    return count;
}

PRIM_NOINLINE unsigned stack_capture_marked(uint64_t *frames, unsigned max, const void *caller) {
    struct walk walk;
    unsigned count = 0;
    bool goes_on = UNWIND_IS_KNOWN;
    WALK_START(&walk);
    unsigned module;
    goes_on = goes_on && leave_frame(&walk, &module); /* this function's own */
    while (goes_on && count < max) {
        uintptr_t pc = walk.registers.pc;
        goes_on = leave_frame(&walk, &module);
        if (caller && pc == (uintptr_t)caller) {
            count = 0; /* all before were the library's */
            caller = NULL;
        }
        frames[count++] = (uint64_t)module << STACK_MODULE_SHIFT | pc;
    }
    return count;
}

void stack_prepare(void) {
    module_note_all();
}
