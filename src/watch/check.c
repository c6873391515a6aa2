/* check.c - see check.h: the watcher. */
#include "watch/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "objects/arena.h"
#include "objects/block_bounds.h"
#include "objects/foreign.h"
#include "objects/slow_door.h"
#include "objects/thread_cache.h"
#include "os/lock.h"
#include "os/process.h"
#include "settings/option_table.h"
#include "settings/options.h"
#include "watch/check_zones.h"
#include "watch/stack.h"

enum {
    LOOK_INTERVAL_MIN = 4096, /* calls between looks at all blocks, at least */
    LOOK_INTERVAL_BLOCKS = 4, /* and so many a block */
    LOOK_FREED_SIZE = 64,     /* bytes of a freed block that such a look sees */
    REPORTS_MAX = 100,
};

struct lock checks_lock;

static _Atomic bool is_prepared;                      /* (atomic: hint) stacks can be captured */
static _Atomic(check_handler *) fault_handler;        /* (atomic: hint) of mcheck */
static unsigned report_count;                         /* (lock: CHECKS) */
static uint64_t calls_until_look = LOOK_INTERVAL_MIN; /* (lock: CHECKS) */

static void acquire(void) {
    thread_cache_nest();
    lock_acquire(&checks_lock, LOCK_CHECKS);
}

static void release_lock(void) {
    lock_release(&checks_lock, LOCK_CHECKS);
    thread_cache_leave();
}

static PRIM_STARTUP enum check_level level(void) {
    return (enum check_level)option_now(check);
}

void check_capture(struct check_stack *stack, const void *caller) {
    unsigned count = 0;
    if (load_relaxed(&is_prepared)) {
        count = stack_capture(stack->frames, CHECK_FRAMES, caller);
    }
    if (count == 0) {
        stack->frames[count++] = (uintptr_t)caller;
    }
    if (count < CHECK_FRAMES) {
        stack->frames[count] = 0;
    }
}

/* With the lock held: reports. What follows from it, when the lock is free, is up to act_on. */
static void note(const struct check_finding *finding, const char *occasion) {
    bool is_reported = level() == CHECK_REPORT || level() == CHECK_FULL;
    if (is_reported && report_count < REPORTS_MAX && !load_relaxed(&fault_handler)) {
        report_count++;
        check_report(finding, occasion);
    }
}

static enum check_status status_of(enum check_fault fault) {
    static const int8_t statuses[FAULT_COUNT] = {
        CHECK_OK,
#define FAULT(name, status, sentence) CHECK_##status,
#include "watch/faults.def"
#undef FAULT
    };
    return (enum check_status)statuses[fault];
}

/* Without the lock. */
static void act_on(enum check_fault fault) {
    check_handler *handler = load_relaxed(&fault_handler);
    if (fault == FAULT_NONE) {
        return;
    }
    if (handler) {
        handler(status_of(fault));
    } else if (level() == CHECK_ABORT || level() == CHECK_FULL) {
        abort();
    }
}

static void *plain_of(const struct check_record *record) {
    return (void *)(record->block - record->front);
}

static void free_plain(const struct watcher *self, void *plain, const void *caller) {
    const struct request request = {
        .stated_size = SIZE_NOT_STATED, .call = CALL_FREE, .caller = caller};
    watcher_pass_release(self, plain, &request);
}

static struct check_finding finding_of(enum check_fault fault, uintptr_t pointer,
                                       const struct check_record *record,
                                       const struct request *request) {
    return (struct check_finding){fault, pointer, record, request, {{0}}};
}

/* A look at one block, for faults of bygone calls. */
static enum check_fault look_at(struct check_record *record, size_t most_freed,
                                const char *occasion) {
    uintptr_t changed;
    enum check_fault fault =
        record->is_freed ? check_zones_look_freed(record, most_freed, &changed)
                         : check_zones_look(record, usable_size(plain_of(record)), &changed);
    if (fault) {
        struct check_finding finding = finding_of(fault, changed, record, NULL);
        check_capture(&finding.now, NULL);
        note(&finding, occasion);
    }
    return fault;
}

struct look {
    const char *occasion;
    size_t most_freed;
    unsigned count;
    enum check_fault first;
};

static void look_visitor(struct check_record *record, void *context) {
    struct look *look = context;
    enum check_fault fault = look_at(record, look->most_freed, look->occasion);
    look->count += fault != FAULT_NONE;
    look->first = look->first ? look->first : fault;
}

/* With the lock held. */
static struct look look_at_all(const char *occasion, size_t most_freed) {
    struct look look = {.occasion = occasion, .most_freed = most_freed};
    check_table_visit(look_visitor, &look);
    calls_until_look = bits_max(LOOK_INTERVAL_MIN, check_table_count() * LOOK_INTERVAL_BLOCKS);
    return look;
}

/* With the lock held, at every call: the level full looks at all blocks now and then. */
static enum check_fault count_call(void) {
    if (level() != CHECK_FULL || --calls_until_look) {
        return FAULT_NONE;
    }
    return look_at_all("by the look at all blocks", LOOK_FREED_SIZE).first;
}

/* Takes what is too much out of the quarantine. */
static void shrink_quarantine(const struct watcher *self, const void *caller) {
    struct check_record *record;
    do {
        enum check_fault fault = FAULT_NONE;
        void *plain = NULL;
        acquire();
        record = check_table_expired();
        if (record) {
            fault = look_at(record, SIZE_MAX, "when the block left the quarantine");
            plain = plain_of(record);
            check_table_remove(record);
        }
        release_lock();
        if (plain) {
            free_plain(self, plain, caller);
        }
        act_on(fault);
    } while (record);
}

static void *checked_allocate(const struct watcher *self, const struct request *request) {
    size_t front = bits_max(ZONE_SIZE, request->alignment);
    struct request plain = *request;
    if (__builtin_add_overflow(request->size, front + ZONE_SIZE, &plain.size)) {
        return watcher_pass_allocate(self, request); /* which fails */
    }
    plain.alignment = request->alignment > ZONE_SIZE || request->offset ? request->alignment : 0;
    char *start = watcher_pass_allocate(self, &plain);
    if (!start) {
        return NULL;
    }
    struct check_stack stack;
    check_capture(&stack, request->caller);
    acquire();
    struct check_record *record = check_table_add((uintptr_t)start + front);
    enum check_fault fault = FAULT_NONE;
    if (record) {
        record->size = request->size;
        record->alignment = request->alignment;
        record->front = front;
        record->call = (uint8_t)request->call;
        record->is_in_heap = request->arena && request->arena->kind == ARENA_HEAP;
        record->allocated = stack;
        check_zones_write(record, usable_size(start));
        fault = count_call();
    }
    release_lock();
    act_on(fault);
    return record ? start + front : start; /* without memory for a record: unchecked */
}

/* Functions that go together have the same number. */
static unsigned family_of(enum call call) {
    static const uint8_t families[CALL_COUNT] = {
        [CALL_NEW] = 1, [CALL_DELETE] = 1, [CALL_NEW_ARRAY] = 2, [CALL_DELETE_ARRAY] = 2};
    return families[call];
}

/* As much as every block of new has need not be stated. */
static size_t stated_alignment(size_t alignment) {
    return alignment > 16 ? alignment : 0;
}

static enum check_fault mismatch(const struct check_record *record, const struct request *request) {
    if (family_of((enum call)record->call) != family_of(request->call)) {
        return FAULT_WRONG_FUNCTION;
    }
    if (request->call == CALL_REALLOC) {
        return FAULT_NONE;
    }
    if (request->stated_size != SIZE_NOT_STATED && request->stated_size != record->size) {
        return FAULT_WRONG_SIZE;
    }
    bool is_stated = request->alignment || family_of(request->call);
    return is_stated && stated_alignment(request->alignment) != stated_alignment(record->alignment)
               ? FAULT_WRONG_ALIGNMENT
               : FAULT_NONE;
}

/* A place begins so far before its block as the block's alignment asks for. */
struct check_record *check_record_in(const struct block_bounds *bounds) {
    for (size_t front = ZONE_SIZE; front < bounds->size; front *= 2) {
        struct check_record *record = check_table_find(bounds->start + front);
        if (record && record->front == front) {
            return record;
        }
    }
    return NULL;
}

/* With the lock held: what is wrong with a pointer that is no live block of ours; FAULT_NONE if the
 * plain allocator is to have it. */
static enum check_fault judge(const void *block, const struct request *request,
                              const struct check_record **around) {
    struct block_bounds bounds = block_bounds_of(block);
    *around = check_table_find((uintptr_t)block);
    if (*around) {
        return request->call == CALL_REALLOC ? FAULT_REALLOC_FREED : FAULT_DOUBLE_FREE;
    }
    if (bounds.object_class == 0) {
        return foreign_usable_size(block) ? FAULT_NONE : FAULT_FOREIGN;
    }
    if (bounds.object_class > CLASS_LARGE) { /* where blocks are known by their beginning */
        bounds.start = (uintptr_t)block;
        bounds.size = usable_size(block);
    }
    *around = check_record_in(&bounds);
    if (*around) {
        return (uintptr_t)block - (*around)->block < (*around)->size ? FAULT_INTERIOR
                                                                     : FAULT_INVALID;
    }
    return bounds.size && bounds.start == (uintptr_t)block ? FAULT_NONE : FAULT_INVALID;
}

/* With the lock held: looks at everything that the call tells of a live block. */
static enum check_fault judge_live(struct check_record *record, const struct request *request,
                                   uintptr_t *where) {
    enum check_fault fault = check_zones_look(record, usable_size(plain_of(record)), where);
    if (!fault) {
        *where = record->block;
        fault = mismatch(record, request);
    }
    return fault;
}

/* The live record of a pointer; else its fault, which is reported. */
static struct check_record *live_record(void *block, const struct request *request,
                                        const struct check_stack *now, enum check_fault *fault) {
    struct check_record *record = check_table_find((uintptr_t)block);
    bool is_live = record && !record->is_freed;
    struct check_finding finding = {.record = record, .request = request, .now = *now};
    finding.pointer = (uintptr_t)block;
    finding.fault = is_live ? judge_live(record, request, &finding.pointer)
                            : judge(block, request, &finding.record);
    if (finding.fault) {
        note(&finding, NULL);
    }
    *fault = finding.fault;
    return is_live ? record : NULL;
}

static void checked_release(const struct watcher *self, void *block,
                            const struct request *request) {
    if (!block) {
        return;
    }
    bool is_kept = false;
    void *plain = NULL;
    enum check_fault fault;
    struct check_stack now;
    check_capture(&now, request->caller);
    acquire();
    struct check_record *record = live_record(block, request, &now, &fault);
    if (record) {
        plain = plain_of(record);
        is_kept =
            bits_max(record->size, record->front) <= QUARANTINE_BLOCK_MAX && !record->is_in_heap;
        record->is_freed = true;
        record->freed_call = (uint8_t)request->call;
        record->freed = now;
        if (is_kept) {
            check_zones_fill_freed(record);
            check_table_quarantine(record);
        } else {
            check_table_remove(record);
        }
    }
    enum check_fault other_fault = count_call();
    release_lock();
    if (!record && (!fault || fault == FAULT_FOREIGN)) {
        watcher_pass_release(self, block, request);
    } else if (record && !is_kept) {
        free_plain(self, plain, request->caller);
    }
    act_on(fault ? fault : other_fault);
    shrink_quarantine(self, request->caller);
}

static void *checked_reallocate(const struct watcher *self, void *block,
                                const struct request *request) {
    if (!block) {
        return checked_allocate(self, request);
    }
    if (request->size == 0) {
        checked_release(self, block, request);
        return NULL;
    }
    enum check_fault fault;
    struct check_stack now;
    check_capture(&now, request->caller);
    acquire();
    struct check_record *record = live_record(block, request, &now, &fault);
    size_t size = record ? record->size : 0;
    struct request end = *request; /* what does not match was told already */
    struct request move = *request;
    if (record) {
        move.arena = arena_or_tag_of(plain_of(record));
        end.alignment = record->alignment;
        end.call = family_of((enum call)record->call) ? (enum call)record->call : CALL_REALLOC;
    }
    release_lock();
    act_on(fault);
    if (!record && (!fault || fault == FAULT_FOREIGN)) {
        return watcher_pass_reallocate(self, block, request);
    }
    if (!record) {
        errno = ENOMEM;
        return NULL;
    }
    void *target = checked_allocate(self, &move);
    if (target) {
        memcpy(target, block, bits_min(size, request->size));
        checked_release(self, block, &end);
    } else if (request->size <= size) { /* a full heap, say: there is room in the old one */
        acquire();
        record->size = request->size;
        check_zones_write(record, usable_size(plain_of(record)));
        release_lock();
        target = block;
    }
    return target;
}

static size_t checked_usable_size(const struct watcher *self, const void *block) {
    acquire();
    const struct check_record *record = check_table_find((uintptr_t)block);
    size_t size = record && !record->is_freed ? record->size : 0;
    release_lock();
    return record ? size : watcher_pass_usable_size(self, block);
}

static struct watcher checks = {
    checked_allocate, checked_reallocate, checked_release, checked_usable_size, RANK_CHECKS, NULL,
};

PRIM_STARTUP void check_begin(void) {
    if (level() != CHECK_OFF) {
        watcher_register(&checks);
    }
}

void check_prepare(void) {
    stack_prepare();
    store_relaxed(&is_prepared, true);
}

bool check_begin_late(check_handler *handler) {
    if (level() == CHECK_OFF) {
        if (!thread_cache_own() || !thread_cache_is_only()) {
            return false;
        }
        __atomic_store_n(&options.check, CHECK_FULL, __ATOMIC_RELAXED);
        store_relaxed(&option_sources[OPTION_INDEX_check], SOURCE_DEFAULT); /* nobody's: mcheck's */
        check_prepare();
        check_begin();
    }
    store_relaxed(&fault_handler, handler);
    return true;
}

unsigned check_all(const char *occasion) {
    if (thread_cache_is_inside()) {
        return 0;
    }
    acquire();
    struct look look = look_at_all(occasion, SIZE_MAX);
    release_lock();
    act_on(look.first);
    return look.count;
}

enum check_status check_one(const void *block) {
    enum check_fault fault = FAULT_NONE;
    if (level() == CHECK_OFF || thread_cache_is_inside()) {
        return CHECK_DISABLED;
    }
    acquire();
    struct check_record *record = check_table_find((uintptr_t)block);
    if (record) {
        fault = record->is_freed ? FAULT_DOUBLE_FREE
                                 : look_at(record, SIZE_MAX, "by a look at this block");
    } else {
        const struct check_record *around;
        const struct request request = {.call = CALL_FREE};
        fault = judge(block, &request, &around);
    }
    release_lock();
    if (fault >= FAULT_UNDERRUN) { /* which was told */
        act_on(fault);
    }
    return status_of(fault);
}

const void *check_place(const void *block) {
    acquire();
    const struct check_record *record = check_table_find((uintptr_t)block);
    const void *place = record ? plain_of(record) : block;
    release_lock();
    return place;
}

static struct check_record *record_in(const void *block, size_t size) {
    return check_record_in(&(struct block_bounds){(uintptr_t)block, size, CLASS_ARENA});
}

void check_show(void **block, size_t *size) {
    acquire();
    const struct check_record *record = record_in(*block, *size);
    if (record) {
        *block = (void *)record->block;
        *size = record->size;
    }
    release_lock();
}

static bool end_block(void *block, size_t size, void *context) {
    enum check_fault *first = context;
    struct check_record *record = record_in(block, size);
    if (record) {
        enum check_fault fault = look_at(record, SIZE_MAX, "when its heap was destroyed");
        *first = *first ? *first : fault;
        check_table_remove(record);
    }
    return true;
}

void check_end_arena(struct arena *arena) {
    enum check_fault first = FAULT_NONE;
    acquire();
    arena_visit_blocks(arena, end_block, &first);
    release_lock();
    act_on(first);
}

PRIM_COLD size_t check_zones_size(size_t alignment) {
    return level() == CHECK_OFF ? 0 : bits_max(ZONE_SIZE, alignment) + ZONE_SIZE;
}

/* Not where a signal's handler ends the process inside a call, which may hold our lock. */
PRIM_STARTUP void check_finish(void) {
    if (level() != CHECK_OFF && !thread_cache_is_inside()) {
        check_all("at exit");
    }
}
