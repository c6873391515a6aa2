/* huge.c - see huge.h. */
#include "pages/huge.h"

#include "base/bits.h"
#include "base/print.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/text_file.h"
#include "pages/lane.h"
#include "pages/mapping.h"
#include "pages/page_heap.h"
#include "settings/options.h"

enum {
    GROWTH_UNASKED = 2 << 20, /* mapped: until then the system's setting does not matter */
    HEAP_MIN = 8 << 20,       /* mapped: in less, the unused end of a huge page is too much ... */
    HEAP_THREAD = 256 << 10,  /* ... and for each thread beside the first so much more ... */
    THREADS_MOST = 512,       /* ... of so many: of that end none of more threads has much */
    HEAP_SLOW = 32 << 20,     /* mapped: in less, a heap that grows slowly goes without, as well */
    SLOW_US = 10000,          /* the process's time for 2 MiB of slabs: faults are a 20th of it */
    SAMPLES = 16,             /* pages looked at to tell whether a range is dense */
    DENSE_SAMPLES = 14,       /* of them resident in a dense one */
    DENSE_TIMES = 16,         /* so many times a dense range may be huge after it: a table that is
                                 hardly used, and costs a huge page a touch, may be of any size */
    PROBES = 0x55555550,      /* counts whose range goes without at its end: 16, 64, 256 ... */
    STALL_US = 3000,          /* a fault that takes longer is a stall */
    FIRST_PAUSE = 8,          /* ranges without huge pages after the first stall */
    PAUSE_MAX = 1024,
};

/* One for each kind of span, and of slabs one for each lane. */
struct judgement {
    _Atomic uintptr_t start; /* (atomic: hint) the range considered last, or 0 */
    _Atomic uintptr_t end;   /* (atomic: hint) */
    _Atomic uint32_t count;  /* (atomic: hint) of ranges that were to be huge */
    _Atomic bool is_wanted;  /* (atomic: hint) the last one was */
};

_Atomic size_t huge_asked_bytes;
_Atomic size_t huge_pool_bytes;

static _Atomic uint32_t thread_count; /* (atomic: counter) beside the first */
static struct judgement of_small[LANE_MOST];
static struct judgement of_large;
static _Atomic uint32_t pause_left; /* (atomic: hint) ranges to go without huge pages */
static _Atomic uint32_t next_pause = FIRST_PAUSE; /* (atomic: hint) after the next stall */

/* Whether the system gives huge pages to everybody: "[always] madvise never". */
static bool is_system_generous(void) {
    struct text_file file;
    if (!text_file_open_unasked(&file, "/sys/kernel/mm/transparent_hugepage/enabled")) {
        return false;
    }
    bool is_generous = text_file_byte(&file) == '[';
    text_file_close(&file);
    return is_generous;
}

/* Says once what became of large_os_pages: when it fails, and on demand when it works. */
static void report_pool(bool done, size_t size) {
    static _Atomic bool is_reported[2]; /* (atomic: hint) failure, success */
    if (load_relaxed(&is_reported[done]) || (done && !options.verbose)) {
        return;
    }
    store_relaxed(&is_reported[done], true);
    char line[192];
    struct print out = print_to(line, sizeof line);
    print_format(&out, "primalloc: large_os_pages: %lu MiB %s\n", size >> 20,
                 done ? "of the heap are huge pages of the system's pool"
                      : "are not free (vm.nr_hugepages): it goes on with ordinary pages");
    process_write_error(line, out.length);
}

PRIM_COLD uintptr_t huge_map_pool(size_t size) {
    void *pages = memory_map_pool(size);
    report_pool(pages != NULL, size);
    if (pages) {
        add_relaxed(&huge_pool_bytes, size);
    }
    return (uintptr_t)pages;
}

/* How large the range considered last is if nearly all of it is resident by now, else 0. With
 * greater pages, of which a part is never seen to be resident, a huge one is more than 2 MiB. */
static size_t last_dense_size(const struct judgement *judgement) {
    uintptr_t start = load_relaxed(&judgement->start);
    uintptr_t end = load_relaxed(&judgement->end);
    /* A page more from sample to sample: blocks often begin where even steps do, and the first page
     * of a block that nobody fills says nothing about the others. */
    size_t step = (end - start) / SAMPLES + PAGE_LEAST;
    bool is_dense = start < end && /* else there is none, or another thread is between the two */
                    memory_page_size() == PAGE_LEAST &&
                    memory_samples((void *)start, end - start, step) >= DENSE_SAMPLES;
    return is_dense ? end - start : 0;
}

static bool is_pausing(void) {
    uint32_t left = load_relaxed(&pause_left);
    if (left) {
        store_relaxed(&pause_left, left - 1);
    }
    return left != 0;
}

/* What is left of the range goes without as well: the next huge page would be no quicker. */
static PRIM_COLD void pause_after_stall(uintptr_t rest, uintptr_t end) {
    uint32_t pause = load_relaxed(&next_pause);
    store_relaxed(&pause_left, pause);
    store_relaxed(&next_pause, (uint32_t)bits_min((size_t)pause * 2, PAUSE_MAX));
    huge_forget(rest, end);
}

static bool ask_for(uintptr_t start, uintptr_t end) {
    if (start >= end || !mapping_may_cut() ||
        !memory_advise_huge((void *)start, end - start, true)) {
        return false;
    }
    span_set_marks(start, end, MARK_HUGE, true);
    span_set_marks(start, end, MARK_ASKED, true);
    mapping_note_advice(start, end);
    add_relaxed(&huge_asked_bytes, end - start);
    return true;
}

/* A range that is resident as a whole says nothing: the end of one goes without now and then, more
 * and more rarely. Large blocks may be of several kinds: those that nobody fills, after one that
 * was filled, would cost a huge page each. So of these the second goes without, too. */
static bool is_probe(uint32_t count, bool is_large) {
    return (count & (count - 1)) == 0 && (count & (PROBES | is_large));
}

/* Whether slabs took this range so long after the one before that their faults hardly count. */
static PRIM_COLD bool is_slow_growth(void) {
    static _Atomic uint64_t last_us; /* (atomic: hint) */
    uint64_t now = machine_process_time_us();
    bool is_slow = now > load_relaxed(&last_us) + SLOW_US; /* another's may be later than now */
    store_relaxed(&last_us, now);
    return is_slow && load_relaxed(&page_heap.mapped_slices) < HEAP_SLOW / SLICE_SIZE;
}

/* A range of slabs may have been asked for before. */
static void consider(struct judgement *judgement, uintptr_t start, uintptr_t end) {
    bool is_large = judgement == &of_large;
    size_t dense = !is_large && is_slow_growth() ? 0 : last_dense_size(judgement);
    bool is_wanted = dense != 0;
    uint32_t count = load_relaxed(&judgement->count);
    uintptr_t probe = is_wanted && is_probe(count, is_large) ? end - HUGE_SIZE : end;
    probe = is_wanted ? bits_min(probe, start + dense * DENSE_TIMES) : probe;
    store_relaxed(&judgement->count, count + is_wanted);
    store_relaxed(&judgement->is_wanted, is_wanted);
    store_relaxed(&judgement->start, probe < end ? probe : start);
    store_relaxed(&judgement->end, end);
    if (span_has_mark(start, MARK_ASKED) || (is_wanted && !is_pausing() && ask_for(start, probe))) {
        uint64_t before = machine_thread_time_us();
        *(volatile char *)start = 0; /* it is zero */
        if (machine_thread_time_us() - before > STALL_US) {
            pause_after_stall(start + HUGE_SIZE, probe);
        }
    }
}

void huge_note_thread(void) {
    if (load_relaxed(&thread_count) < THREADS_MOST) {
        add_relaxed(&thread_count, 1);
    }
}

static PRIM_NOINLINE bool may_ask_for_slabs(void) {
    size_t threads = load_relaxed(&thread_count);
    return options.thp == THP_AUTO && option_now(hard_limit) == 0 &&
           load_relaxed(&page_heap.mapped_slices) >=
               HEAP_MIN / SLICE_SIZE + threads * (HEAP_THREAD / SLICE_SIZE);
}

/* Of slabs the next range, if all of it is there, is asked for before anybody has a part of it:
 * another thread would put small pages into it meanwhile. */
static void ask_for_next(const struct judgement *judgement, uintptr_t start, uintptr_t clean_end) {
    if (start + HUGE_SIZE <= clean_end && !span_has_mark(start, MARK_ASKED) &&
        load_relaxed(&judgement->is_wanted) && load_relaxed(&pause_left) == 0 &&
        !is_probe(load_relaxed(&judgement->count), false) && may_ask_for_slabs()) {
        ask_for(start, start + HUGE_SIZE);
    }
}

void huge_note_growth(uintptr_t start, size_t size, size_t mapped_bytes) {
    static _Atomic uint8_t system; /* (atomic: any thread finds the same) 0 unknown, 1 no, 2 yes */
    if (options.thp == THP_ALWAYS) {
        memory_advise_huge((void *)start, size, true);
        return;
    }
    if (mapped_bytes < GROWTH_UNASKED) {
        return;
    }
    if (load_relaxed(&system) == 0) {
        store_relaxed(&system, is_system_generous() ? 2 : 1);
    }
    if (load_relaxed(&system) == 2) {
        memory_advise_huge((void *)start, size, false);
    }
    if (start % HUGE_SIZE == 0) {
        ask_for_next(&of_small[0], start, start + size);
    }
}

void huge_consider_small(const struct span *span, uintptr_t clean_end, unsigned lane) {
    uintptr_t start = bits_round_up(span->address, HUGE_SIZE);
    if (PRIM_UNLIKELY(start < span_end(span)) && start + HUGE_SIZE <= clean_end &&
        may_ask_for_slabs()) {
        consider(&of_small[lane], start, start + HUGE_SIZE);
        ask_for_next(&of_small[lane], start + HUGE_SIZE, clean_end);
    }
}

void huge_consider_large(uintptr_t address, uintptr_t end) {
    uintptr_t start = bits_round_up(address, HUGE_SIZE);
    end = bits_round_down(end, HUGE_SIZE);
    /* Else a block was cut down, or its end is to go without. */
    bool is_new = start != load_relaxed(&of_large.start) && end != load_relaxed(&of_large.end);
    if (start < end && is_new && options.thp == THP_AUTO) {
        huge_forget(start, end); /* what was asked for slabs */
        consider(&of_large, start, end);
    }
}

void huge_forget(uintptr_t start, uintptr_t end) {
    for (uintptr_t at = bits_round_down(start, HUGE_SIZE); at < end; at += HUGE_SIZE) {
        if (start <= at && at + HUGE_SIZE <= end) {
            span_set_marks(at, at + HUGE_SIZE, MARK_HUGE, false);
        }
        uint64_t bit = span_mark_bit(at);
        if (PRIM_UNLIKELY(span_has_mark(at, MARK_ASKED)) && /* and no neighbour was quicker */
            (and_relaxed(span_mark_word(at, MARK_ASKED), ~bit) & bit)) {
            memory_advise_huge((void *)at, HUGE_SIZE, false);
            mapping_note_advice(at, at + HUGE_SIZE);
            subtract_relaxed(&huge_asked_bytes, HUGE_SIZE);
        }
    }
}

/* What is done with the clean part of a block that may hold a huge page; returns bytes. */
typedef size_t part_visitor(uintptr_t address, size_t size);

/* At its ends a clean span has parts of blocks whose rest is in use, and within itself blocks whose
 * other parts went back before this one. */
static size_t visit_span(part_visitor *visit, const struct span *span) {
    size_t bytes = 0;
    uintptr_t end = span_end(span);
    for (uintptr_t at = span->address; at < end;) {
        uintptr_t next = bits_min(bits_round_down(at, HUGE_SIZE) + HUGE_SIZE, end);
        bytes += span_has_mark(at, MARK_HUGE) ? visit(at, next - at) : 0;
        at = next;
    }
    return bytes;
}

static size_t visit_parts(part_visitor *visit) {
    size_t bytes = 0;
    size_t slices = SIZE_MAX;
    uintptr_t address = 0;
    lock_acquire(&page_heap.lock, LOCK_PAGE_HEAP);
    for (struct span *span; (span = extent_set_before(&page_heap.clean, slices, address));) {
        bytes += visit_span(visit, span);
        slices = span->slice_count;
        address = span->address;
    }
    lock_release(&page_heap.lock, LOCK_PAGE_HEAP);
    return bytes;
}

static size_t count_part(uintptr_t address, size_t size) {
    return memory_resident((void *)address, size);
}

static size_t return_part(uintptr_t address, size_t size) {
    size_t resident = memory_resident((void *)address, size);
    return resident && mapping_drop(address, size) ? resident : 0;
}

size_t huge_waste_bytes(void) {
    return visit_parts(count_part);
}

size_t huge_return_waste(void) {
    return visit_parts(return_part);
}
