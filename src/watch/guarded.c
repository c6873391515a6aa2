/* guarded.c - see guarded.h: the pool of slots. */
#include "watch/guarded.h"

#include <string.h>

#include "base/bits.h"
#include "base/print.h"
#include "objects/sampler.h"
#include "objects/size_class.h"
#include "os/fault.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/process.h"
#include "pages/metadata.h"
#include "pages/lent.h"
#include "pages/page_heap.h"
#include "settings/options.h"
#include "watch/stack.h"

enum {
    BURST = 8,      /* so many allocations may come at once after a pause */
    PATTERN = 0xa7, /* of bytes beside a block */
    MS_PER_S = 1000,
    BUDGET = 5000, /* millionths of the time */
};

/* Pages in turns: forbidden, slot 0, forbidden, slot 1, ... forbidden. */
static struct {
    _Atomic(struct guarded_slot *) slots; /* (atomic: pool) NULL until the first block is placed */
    uintptr_t start;                      /* (const once there are slots) of the first page */
    uintptr_t end;                        /* (const once there are slots) */
    size_t page;                          /* (const once there are slots) */
    unsigned count;                       /* (const once there are slots) */
    _Atomic uint64_t free_number;         /* (atomic: counter) */
    _Atomic uint64_t time_taken; /* (atomic: hint) budget is spent up to here, in 1/rate s */
    _Atomic uint64_t random;     /* (atomic: counter) */
} pool;

_Atomic uint32_t guarded_was_tried;

static uintptr_t page_of(unsigned index) {
    return pool.start + (2 * (uintptr_t)index + 1) * pool.page;
}

static bool make_span(size_t bytes) {
    struct span *span = lent_span(pool.start, bytes);
    if (span) {
        span_publish(span, SPAN_SLAB, CLASS_PLACED);
    }
    return span != NULL;
}

/* Reserves the pool; the first caller does, and others go without meanwhile. */
static PRIM_COLD struct guarded_slot *make_pool(void) {
    if (exchange_both(&guarded_was_tried, true)) {
        return NULL;
    }
    pool.page = memory_page_size();
    pool.count = (unsigned)options.guarded_slots;
    size_t bytes = bits_round_up((2 * (size_t)pool.count + 1) * pool.page, SLICE_SIZE);
    char *reserved = memory_reserve(bytes + SLICE_SIZE);
    struct guarded_slot *slots = metadata_allocate(pool.count * sizeof *slots, PRIM_CACHE_LINE);
    if (reserved && slots) {
        memory_forbid(reserved, bytes + SLICE_SIZE);
        memory_dump(reserved, bytes + SLICE_SIZE, true); /* else debuggers show zeros */
        pool.start = bits_round_up((uintptr_t)reserved, SLICE_SIZE);
        pool.end = pool.start + bytes;
        if (make_span(bytes)) {
            store_release(&pool.slots, slots); /* order pair: pool */
            return slots;
        }
    }
    process_complain("no address space for guarded sampling", "");
    return NULL;
}

/* Whether time allows another block: at most so many a second, a few at once. */
static bool is_in_budget(void) {
    uint64_t rate = options.guarded_rate;
    if (rate == 0) {
        return true;
    }
    uint64_t now = machine_clock_ms() * rate;
    uint64_t taken = load_relaxed(&pool.time_taken);
    uint64_t burst = (uint64_t)BURST * MS_PER_S;
    uint64_t earliest = now > burst ? now - burst : 0;
    bool was_set_back = taken > now + rate * MS_PER_S; /* as machine_is_time says */
    uint64_t next = bits_max(was_set_back ? 0 : taken, earliest) + MS_PER_S;
    return next <= now && compare_exchange_relaxed(&pool.time_taken, &taken, next);
}

/* The free slot that was freed first, BUSY; NULL if all are in use. */
static struct guarded_slot *take_slot(struct guarded_slot *slots) {
    struct guarded_slot *oldest = NULL;
    uint64_t oldest_number = UINT64_MAX;
    for (unsigned i = 0; i < pool.count; i++) {
        uint64_t number = load_relaxed(&slots[i].freed_at);
        if (load_relaxed(&slots[i].state) == GUARDED_FREE && number < oldest_number) {
            oldest = &slots[i];
            oldest_number = number;
        }
    }
    unsigned expected = GUARDED_FREE;
    bool is_taken =
        oldest && compare_exchange_acquire(&oldest->state, &expected, GUARDED_BUSY); /* order pair:
                                                                                        slot */
    return is_taken ? oldest : NULL;
}

/* Right before the forbidden page behind, as near as alignment allows, or right behind the one
 * before. Blocks above 8 bytes are aligned to 16 as all are. */
static uintptr_t choose_address(uintptr_t page, const struct sample *sample) {
    uint64_t random = add_relaxed(&pool.random, 1) ^ machine_clock_ms() << 20 ^ page;
    size_t least = sample->size > 8 || options.min_align > 8 ? 16 : 8;
    size_t alignment = bits_max(sample->alignment, least);
    size_t size = bits_max(sample->size, 1); /* a block of nothing has an address of its own, too */
    bool is_left = sampler_random(&random) & 1;
    return is_left ? page : bits_round_down(page + pool.page - size, alignment);
}

static void *place(const struct sample *sample) {
    if (sample->size > memory_page_size() || sample->alignment > memory_page_size() ||
        !is_in_budget()) {
        return NULL;
    }
    struct guarded_slot *slots = load_acquire(&pool.slots); /* order pair: pool */
    slots = slots ? slots : make_pool();
    struct guarded_slot *slot = slots ? take_slot(slots) : NULL;
    if (!slot) {
        return NULL;
    }
    uintptr_t page = page_of((unsigned)(slot - slots));
    if (!memory_commit((void *)page, pool.page)) {
        store_release(&slot->state, GUARDED_FREE); /* order pair: slot */
        return NULL;
    }
    slot->block = choose_address(page, sample);
    slot->size = sample->size;
    slot->freed.count = 0;
    guarded_capture(&slot->allocated);
    memset((void *)page, PATTERN, slot->block - page);
    uintptr_t end = slot->block + slot->size;
    memset((void *)end, PATTERN, page + pool.page - end);
    store_release(&slot->state, GUARDED_LIVE); /* order pair: slot */
    return (void *)slot->block;
}

/* The slot whose page this is; NULL for a forbidden one. */
static struct guarded_slot *slot_at(uintptr_t address) {
    size_t page = (address - pool.start) / pool.page;
    struct guarded_slot *slots = load_acquire(&pool.slots); /* order pair: pool */
    return page % 2 && page / 2 < pool.count ? &slots[page / 2] : NULL;
}

/* The first byte of the range that is not the pattern anymore, or 0. */
static uintptr_t first_changed(uintptr_t start, uintptr_t end) {
    const uint64_t word = PATTERN * 0x0101010101010101u;
    while (start < end) {
        bool is_word = start % sizeof word == 0 && end - start >= sizeof word;
        if (is_word && *(const uint64_t *)start == word) {
            start += sizeof word;
        } else if (*(const unsigned char *)start == PATTERN) {
            start++;
        } else {
            return start;
        }
    }
    return 0;
}

static void check_pattern(const struct guarded_slot *slot, const struct guarded_stack *now) {
    uintptr_t page = bits_round_down(slot->block, pool.page);
    uintptr_t changed = first_changed(slot->block + slot->size, page + pool.page);
    changed = changed ? changed : first_changed(page, slot->block);
    if (changed) {
        guarded_report(GUARDED_CHANGED, "write", changed, slot, now);
    }
}

static void release(void *block) {
    uintptr_t address = (uintptr_t)block;
    struct guarded_slot *slot = slot_at(address);
    struct guarded_stack now;
    guarded_capture(&now);
    if (!slot || slot->block != address) {
        guarded_report(GUARDED_INVALID_FREE, "free", address, slot, &now);
        return;
    }
    unsigned expected = GUARDED_LIVE;
    if (!compare_exchange_acquire(&slot->state, &expected, GUARDED_BUSY)) { /* order pair: slot */
        guarded_report(GUARDED_DOUBLE_FREE, "free", address, slot, &now);
        return;
    }
    check_pattern(slot, &now);
    slot->freed = now;
    memory_forbid((void *)bits_round_down(address, pool.page), pool.page);
    store_relaxed(&slot->freed_at, add_relaxed(&pool.free_number, 1) + 1);
    store_release(&slot->state, GUARDED_FREE); /* order pair: slot */
}

static size_t guarded_usable_size(const void *block) {
    struct guarded_slot *slot = slot_at((uintptr_t)block);
    bool is_live =
        slot && slot->block == (uintptr_t)block && load_relaxed(&slot->state) == GUARDED_LIVE;
    return is_live ? slot->size : 0;
}

/* The slot that a forbidden page's address is nearer to: the one before it was overrun, the one
 * behind it underrun. */
static struct guarded_slot *nearest(uintptr_t address, enum guarded_fault *fault) {
    struct guarded_slot *before = slot_at(bits_max(address - pool.page, pool.start));
    struct guarded_slot *behind = slot_at(address + pool.page);
    bool has_before = before && before->block;
    bool has_behind = behind && behind->block;
    bool is_before = has_before && (!has_behind || address - (before->block + before->size) <=
                                                       behind->block - address);
    *fault = is_before ? GUARDED_OVERRUN : GUARDED_UNDERRUN;
    return is_before ? before : has_behind ? behind : NULL;
}

/* The innermost frame is that of libc's return from the handler: the next one is the program's. */
static void leave_signal_frame(struct guarded_stack *stack) {
    if (stack->count > 1) {
        stack->count--;
        memmove(stack->frames, stack->frames + 1, stack->count * sizeof stack->frames[0]);
    }
}

/* Where the program is to go on, the page is anybody's from then on. */
static bool see_fault(uintptr_t address, enum fault_access access) {
    static const char verbs[][7] = {"access", "read", "write"};
    if (!load_acquire(&pool.slots) || address < pool.start || address >= pool.end) { /* order pair:
                                                                                        pool */
        return false;
    }
    enum guarded_fault fault = GUARDED_USE_AFTER_FREE;
    struct guarded_slot *slot = slot_at(address);
    slot = slot ? slot : nearest(address, &fault);
    struct guarded_stack now;
    guarded_capture(&now);
    leave_signal_frame(&now);
    guarded_report(fault, verbs[access], address, slot, &now);
    return options.guarded_go_on &&
           memory_commit((void *)bits_round_down(address, pool.page), pool.page);
}

static struct sampler_user user = {
    .size_max = PAGE_LEAST, /* whatever a page is here */
    .place = place,
    .release = release,
    .usable_size = guarded_usable_size,
};

PRIM_STARTUP void guarded_start(void) {
    if (options.guarded) {
        stack_prepare();
        fault_catch(see_fault);
        store_relaxed(&user.budget, options.guarded_rate ? BUDGET : 0);
        sampler_start(&user, options.guarded_bytes);
    }
}
