/* stack.c - see stack.h.
 *
 * Rules that were found are kept in one table for all threads, in two words: an address with its
 * module, and the packed rule. Both are read and written without a lock; the first is combined with
 * the second, so that halves of different entries do not fit together. */
#include "watch/stack.h"

#include <string.h>

#include "base/bits.h"
#include "os/memory.h"
#include "os/readable.h"
#include "os/registers.h"
#include "watch/unwind.h"

enum {
    SLOT_COUNT = 8192,
    FRAME_SIZE_MAX = 1 << 20, /* of code that only has frame pointers */
    CFA_BITS = 22,
    PLACE_BITS = 12,
    ROUTE_MAX = 16, /* frames */
    ROUTES_MAX = 24,
    WORD = sizeof(uintptr_t),
};

/* A rule without its rare parts, in one word. From the lowest bits on: the kind, the register that
 * the CFA (canonical frame address) is found by, its offset, and where the return address and the
 * two registers were saved, from the CFA; 0 if a register was not saved. All in words. */
enum kind {
    KIND_NONE,    /* too much for one word: left by the rule itself */
    KIND_PLAIN,   /* CFA = register + offset */
    KIND_POINTER, /* by frame pointer */
    KIND_END,     /* nobody called this frame */
    KIND_BITS = 4,
    REGISTER_BITS = 2,
};
_Static_assert(KIND_BITS + REGISTER_BITS + CFA_BITS + 3 * PLACE_BITS == 64, "a rule is a word");

struct slot {
    _Atomic uint64_t key;  /* (atomic: hint) address and module, combined with the rule */
    _Atomic uint64_t rule; /* (atomic: hint) */
};

static PRIM_FAR struct slot slots[SLOT_COUNT];

/* The way out of this library that a walk has taken once, from where it begins: frames of our own
 * are the same few again and again. */
struct route_return {
    uintptr_t address; /* that is returned to */
    uintptr_t place;   /* where it is found: bytes from the stack pointer at the start */
};

struct route {
    struct route_return returns[ROUTE_MAX]; /* innermost first */
    unsigned count;
    unsigned module;                        /* ours */
    uint32_t places[UNWIND_REGISTER_COUNT]; /* of the outermost frame's registers; 0: not saved */
    uint32_t cfa;                           /* of the outermost frame */
};

static PRIM_FAR struct route routes[ROUTES_MAX]; /* (const below route_count) */
static _Atomic unsigned route_count;             /* (atomic: routes) */
static _Atomic unsigned route_last_used;         /* (atomic: hint) */
_Atomic uint32_t stack_route_writer;

struct walk {
    struct registers registers;
    uintptr_t low;   /* from here */
    uintptr_t high;  /* to here the stack can be read */
    bool is_at_call; /* the address is that behind a call: what counts lies before it */
    unsigned module; /* the last one that was found to be there: it stays while it is in the walk */
    uint64_t rule;   /* by which the last frame was left; KIND_NONE: a rarer one */
};

static PRIM_COLD bool reach(struct walk *walk, uintptr_t address) {
    uintptr_t page = bits_round_down(address, PAGE_LEAST);
    if (!readable_page(address)) {
        return false;
    }
    if (page != walk->high) {
        walk->low = page;
    }
    walk->high = page + PAGE_LEAST;
    return true;
}

static PRIM_READS_STRANGERS uintptr_t word_at(uintptr_t address) {
    return *(const volatile uintptr_t *)address;
}

PRIM_INLINE bool read_here(struct walk *walk, uintptr_t address, uintptr_t *word) {
    if (PRIM_UNLIKELY(address - walk->low >= walk->high - walk->low) && !reach(walk, address)) {
        return false;
    }
    if (PRIM_UNLIKELY(address % WORD != 0)) {
        return false;
    }
    *word = word_at(address);
    return true;
}

static bool read_word(void *context, uintptr_t address, uintptr_t *word) {
    return read_here(context, address, word);
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

static bool fits(int64_t value, unsigned bits) {
    return value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1);
}

/* KIND_NONE if the rule is not of the common kind. */
static uint64_t pack(const struct unwind_rule *rule) {
    int64_t cfa_offset = rule->cfa_offset / (int64_t)WORD;
    uint64_t packed = 0;
    if (rule->saved[UNWIND_RETURN].how == UNWIND_UNDEFINED) {
        return KIND_END;
    }
    if (rule->is_signal || rule->cfa_expression || rule->cfa_register >= UNWIND_RETURN ||
        rule->cfa_offset % (int64_t)WORD != 0 || !fits(cfa_offset, CFA_BITS)) {
        return KIND_NONE;
    }
    for (unsigned i = UNWIND_FRAME; i < UNWIND_REGISTER_COUNT; i++) {
        const struct unwind_place *saved = &rule->saved[i];
        int64_t place = saved->how == UNWIND_AT_OFFSET ? saved->offset / (int)WORD : 0;
        bool is_common = saved->how == UNWIND_AT_OFFSET || saved->how == UNWIND_SAME ||
                         saved->how == UNWIND_UNDEFINED;
        if (!is_common || !fits(place, PLACE_BITS)) {
            return KIND_NONE;
        }
        packed = packed << PLACE_BITS | field(place, PLACE_BITS);
    }
    packed = packed << CFA_BITS | field(cfa_offset, CFA_BITS);
    return (packed << REGISTER_BITS | rule->cfa_register) << KIND_BITS | KIND_PLAIN;
}

/* To the frame whose return address, stack and frame pointers these are. What cannot be an address
 * is data, of code with neither tables nor frame pointer, and would be taken for a module. */
static bool arrive(struct walk *walk, uintptr_t return_address, uintptr_t cfa) {
    struct registers *registers = &walk->registers;
    registers->pc = address_without_signature(return_address);
    registers->values[UNWIND_STACK] = cfa - CFA_DISTANCE;
    registers->values[UNWIND_RETURN] = registers->pc;
    walk->is_at_call = true;
    return (registers->pc - PAGE_LEAST) >> PRIM_ADDRESS_BITS == 0;
}

static PRIM_COLD bool step_by_pointer(struct walk *walk) {
    uintptr_t *values = walk->registers.values;
    uintptr_t record = values[UNWIND_FRAME] + (uintptr_t)RECORD_DISTANCE;
    uintptr_t return_address;
    return RECORD_IS_KNOWN && record - values[UNWIND_STACK] < FRAME_SIZE_MAX &&
           read_word(walk, record + WORD, &return_address) &&
           read_word(walk, record, &values[UNWIND_FRAME]) &&
           arrive(walk, return_address, record + WORD + WORD);
}

/* The field that ends so many bits below the word's upper end, times WORD. */
PRIM_INLINE uintptr_t offset_at(uint64_t packed, unsigned above, unsigned bits) {
    return (uintptr_t)((int64_t)(packed << above) >> (64 - bits)) * WORD;
}

/* Where a register was saved, in bytes from the CFA; 0: nowhere. */
PRIM_INLINE uintptr_t place_of(uint64_t packed, unsigned reg) {
    return offset_at(packed, (reg - UNWIND_FRAME) * PLACE_BITS, PLACE_BITS);
}

PRIM_INLINE bool restore(struct walk *walk, uint64_t packed, uintptr_t cfa, unsigned reg) {
    uintptr_t place = place_of(packed, reg);
    return place == 0 || read_here(walk, cfa + place, &walk->registers.values[reg]);
}

static bool is_by_stack(uint64_t packed) {
    uint64_t low_bits = packed & ((1 << (KIND_BITS + REGISTER_BITS)) - 1);
    return low_bits == (UNWIND_STACK << KIND_BITS | KIND_PLAIN) && place_of(packed, UNWIND_RETURN);
}

PRIM_INLINE bool take_step(struct walk *walk, uint64_t packed) {
    uintptr_t *values = walk->registers.values;
    unsigned kind = packed & ((1 << KIND_BITS) - 1);
    if (PRIM_UNLIKELY(kind != KIND_PLAIN)) {
        return kind == KIND_NONE || (kind == KIND_POINTER && step_by_pointer(walk));
    }
    uintptr_t cfa = values[packed >> KIND_BITS & ((1 << REGISTER_BITS) - 1)] +
                    offset_at(packed, 3 * PLACE_BITS, CFA_BITS);
    return PRIM_LIKELY(cfa >= values[UNWIND_STACK]) && restore(walk, packed, cfa, UNWIND_FRAME) &&
           restore(walk, packed, cfa, UNWIND_BASE) && restore(walk, packed, cfa, UNWIND_RETURN) &&
           arrive(walk, values[UNWIND_RETURN], cfa);
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

/* The first time at an address: reads the tables, keeps what they say, and returns it. A rule of no
 * common kind is followed at once. */
static PRIM_COLD uint64_t rule_anew(struct walk *walk, uintptr_t address, unsigned module) {
    struct unwind_rule rule;
    uint64_t packed = KIND_POINTER;
    walk->module = module;
    if (module && unwind_find(module_at(module), address, &rule)) {
        packed = pack(&rule);
        if (packed == KIND_NONE) {
            return step_by_rule(walk, &rule) ? KIND_NONE : KIND_END;
        }
    }
    if (module) {
        struct slot *slot = slot_of(address);
        store_relaxed(&slot->rule, packed);
        store_relaxed(&slot->key, stack_frame(module, address) ^ mix(packed));
    }
    return packed;
}

/* Leaves the innermost frame; walk->module is that of the frame that is left. */
static bool leave_frame(struct walk *walk) {
    uintptr_t address = walk->registers.pc - walk->is_at_call;
    struct slot *slot = slot_of(address);
    uint64_t packed = load_relaxed(&slot->rule);
    uint64_t key = load_relaxed(&slot->key) ^ mix(packed);
    if (PRIM_UNLIKELY(stack_frame_address(key) != address || !packed)) {
        packed = rule_anew(walk, address, module_find(address));
    } else if (walk->module != stack_frame_module(key)) {
        unsigned module = module_find_again(address, stack_frame_module(key));
        if (PRIM_UNLIKELY(module != stack_frame_module(key))) {
            packed = rule_anew(walk, address, module);
        } else {
            walk->module = module;
        }
    }
    walk->rule = packed;
    return take_step(walk, packed);
}

/* The route that the stack is on: what is returned to is compared from the innermost frame on, so
 * that nothing is read which is not known to be there. The last one is where the route leads to:
 * any caller of ours. */
static bool is_on_route(const struct route *route, uintptr_t origin) {
    const struct route_return *at = route->returns;
    const struct route_return *end = at + route->count - 1;
    while (at < end && *(const uintptr_t *)(origin + at->place) == at->address) {
        at++;
    }
    return at == end;
}

static const struct route *find_route(uintptr_t origin) {
    unsigned count = load_acquire(&route_count); /* order pair: routes */
    unsigned index = load_relaxed(&route_last_used);
    index = index < count ? index : 0; /* another thread's may be newer than the count */
    for (unsigned tries = 0; tries < count; tries++) {
        if (is_on_route(&routes[index], origin)) {
            store_relaxed(&route_last_used, index);
            return &routes[index];
        }
        index = index + 1 < count ? index + 1 : 0;
    }
    return NULL;
}

static struct walk walk_from(const struct registers *start) {
    uintptr_t low = bits_round_down(start->values[UNWIND_STACK], WORD);
    return (struct walk){
        .registers = *start, .low = low, .high = bits_round_down(low, PAGE_LEAST) + PAGE_LEAST};
}

/* Follows the frames of our own from the start on as long as each finds its CFA by the stack
 * pointer: where the same functions call each other again, all will lie at the same distances.
 * Returns our module, 0 if this library cannot be told from what it is linked into. */
static PRIM_COLD unsigned learn_route(const struct registers *start) {
    struct walk walk = walk_from(start);
    struct route route = {.count = 0};
    uintptr_t origin = start->values[UNWIND_STACK];
    bool goes_on = module_is_ours_alone && leave_frame(&walk) && walk.module;
    unsigned ours = goes_on ? walk.module : 0;
    while (goes_on && route.count < ROUTE_MAX && walk.module == ours && is_by_stack(walk.rule)) {
        uintptr_t cfa = walk.registers.values[UNWIND_STACK] + CFA_DISTANCE;
        for (unsigned i = UNWIND_FRAME; i < UNWIND_REGISTER_COUNT; i++) {
            uintptr_t place = place_of(walk.rule, i);
            route.places[i] = place ? (uint32_t)(cfa + place - origin) : route.places[i];
        }
        uintptr_t *slot = (uintptr_t *)(origin + route.places[UNWIND_RETURN]);
        route.returns[route.count] = (struct route_return){*slot, route.places[UNWIND_RETURN]};
        route.count++;
        route.cfa = (uint32_t)(cfa - origin);
        goes_on = leave_frame(&walk);
    }
    route.module = ours;
    if (route.count > 1 &&
        !exchange_acquire(&stack_route_writer, true)) { /* order pair: route writer */
        unsigned count = load_relaxed(&route_count);
        if (count < ROUTES_MAX && !find_route(origin)) {
            routes[count] = route;
            store_release(&route_count, count + 1); /* order pair: routes */
        }
        store_release(&stack_route_writer, false); /* order pair: route writer */
    }
    return ours;
}

/* Leaves the frames of our own that a route is known for, and returns our module. */
static unsigned leave_by_route(struct walk *walk) {
    uintptr_t *values = walk->registers.values;
    uintptr_t origin = values[UNWIND_STACK];
    const struct route *route = find_route(origin);
    if (PRIM_UNLIKELY(!route)) {
        return learn_route(&walk->registers);
    }
    for (unsigned i = UNWIND_FRAME; i < UNWIND_REGISTER_COUNT; i++) {
        if (route->places[i]) {
            values[i] = *(const uintptr_t *)(origin + route->places[i]);
        }
    }
    arrive(walk, values[UNWIND_RETURN], origin + route->cfa);
    return route->module;
}

PRIM_NOINLINE unsigned stack_capture(uint64_t *frames, unsigned max, const void *caller) {
    struct registers start;
    unsigned count = 0;
    if (!REGISTERS_ARE_KNOWN) {
        return 0;
    }
    REGISTERS_HERE(&start);
    struct walk walk = walk_from(&start);
    unsigned ours = leave_by_route(&walk);
    bool goes_on = walk.is_at_call || leave_frame(&walk); /* this function's own */
    while (goes_on && count < max) {
        uintptr_t pc = walk.registers.pc;
        goes_on = leave_frame(&walk);
        if (caller && pc == (uintptr_t)caller) {
            count = 0; /* all before were the library's */
            caller = NULL;
        }
        if (walk.module != ours || !ours) {
            frames[count++] = stack_frame(walk.module, pc);
            ours = 0;
        }
    }
    return count;
}

void stack_prepare(void) {
    module_note_all();
}
